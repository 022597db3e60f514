module parley

go 1.24

require (
	github.com/go-zeromq/zmq4 v0.17.0
	github.com/tinylib/msgp v1.6.5
)

require (
	github.com/go-zeromq/goczmq/v4 v4.2.2 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	golang.org/x/sync v0.7.0 // indirect
	golang.org/x/text v0.15.0 // indirect
)
