package parley

import (
	"bufio"
	"context"
	"net"
	"strings"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
)

// retryEvery is how often a server that does not listen yet is looked for.
const retryEvery = 100 * time.Millisecond

// connection is one ZMTP connection, as a DEALER: a message out, a message in. One dispatcher has
// one server, so that the queues and goroutines of a socket would be in the way: whoever waits
// here learns at once that the server is gone (R-TRA-15).
type connection struct {
	endpoint string
	raw      net.Conn
	zmtp     *zmq4.Conn
}

// buffered reads and writes a connection by the buffer: a message would be a dozen system calls
// otherwise, and several packets. What was written goes out as soon as anything is to be read:
// whoever speaks here waits for the answer next.
type buffered struct {
	net.Conn
	reader *bufio.Reader
	writer *bufio.Writer
}

func (b buffered) Read(p []byte) (int, error) {
	if err := b.writer.Flush(); err != nil {
		return 0, err
	}
	return b.reader.Read(p)
}

func (b buffered) Write(p []byte) (int, error) { return b.writer.Write(p) }

// connect reaches the server, and waits for it to appear.
func connect(ctx context.Context, endpoint string, patience time.Duration) (*connection, error) {
	network, address, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(patience)
	for {
		dialer := net.Dialer{Deadline: until}
		raw, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			if c := open(endpoint, raw, until); c != nil {
				return c, nil
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if time.Now().Add(retryEvery).After(until) {
			return nil, &LostError{endpoint, "did not answer within " + patience.String()}
		}
		time.Sleep(retryEvery)
	}
}

// open shakes hands; nil if that fails.
func open(endpoint string, raw net.Conn, until time.Time) *connection {
	_ = raw.SetDeadline(until)
	through := buffered{raw, bufio.NewReaderSize(raw, 1<<16), bufio.NewWriterSize(raw, 1<<16)}
	shaken, err := zmq4.Open(through, null.Security(), zmq4.Dealer, nil, false, nil)
	if err != nil {
		_ = raw.Close()
		return nil
	}
	_ = raw.SetDeadline(time.Time{})
	return &connection{endpoint, raw, shaken}
}

// parseEndpoint takes tcp://host:port or ipc://path, as ZeroMQ writes them.
func parseEndpoint(endpoint string) (network, address string, err error) {
	scheme, address, _ := strings.Cut(endpoint, "://")
	if scheme == "ipc" && address != "" {
		return "unix", address, nil
	}
	if scheme == "tcp" {
		if _, port, err := net.SplitHostPort(address); err == nil && port != "" && port != "*" {
			return "tcp", address, nil
		}
	}
	return "", "", &UsageError{Reason: "'" + endpoint + "' is no endpoint to connect to; " +
		"it looks like tcp://127.0.0.1:5555"}
}

// ask sends a frame and returns the server's answer, waiting no longer than until; the zero time
// waits as long as the server lives.
func (c *connection) ask(frame []byte, until time.Time) (_ []byte, err error) {
	defer func() {
		if recover() != nil { // a length that no memory holds
			err = malformed("a frame that is longer than memory")
		}
	}()
	_ = c.raw.SetDeadline(until)
	if err := c.zmtp.SendMsg(zmq4.NewMsgFrom(nil, frame)); err != nil {
		return nil, c.lost(err)
	}
	message, err := c.zmtp.RecvMsg()
	for err == nil && message.Type == zmq4.CmdMsg {
		message, err = c.zmtp.RecvMsg() // a heartbeat of ZMTP
	}
	if err != nil {
		return nil, c.lost(err)
	}
	if len(message.Frames) == 0 {
		return nil, malformed("a message without a frame")
	}
	return message.Frames[len(message.Frames)-1], nil
}

func (c *connection) lost(err error) error {
	if fault, ok := err.(net.Error); ok && fault.Timeout() {
		return &LostError{c.endpoint, "did not answer"}
	}
	return &LostError{c.endpoint, "is gone"}
}

func (c *connection) close() { _ = c.zmtp.Close() }
