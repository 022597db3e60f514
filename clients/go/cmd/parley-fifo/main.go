// Command parley-fifo decides for a Parley server: first come, first served, on the lowest nodes
// that hold a job.
package main

import (
	"os"

	"parley"
	"parley/internal/program"
)

func main() {
	os.Exit(program.Run("parley-fifo", parley.DispatcherFunc(fifo), os.Args[1:], os.Stderr))
}

// fifo starts jobs in the order of their submission, and stops at the first that does not fit: a
// job that waits for its nodes holds up all behind it, so that nobody is overtaken.
func fifo(view *parley.View) error {
	for job := view.Queue.Head(); job != nil && view.Start(job); job = view.Queue.Head() {
	}
	return nil
}
