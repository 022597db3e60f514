// Command parley-easy decides for a Parley server: EASY backfilling on the lowest nodes that hold a
// job.
package main

import (
	"os"

	"parley/internal/program"
	"parley/rules"
)

func main() {
	os.Exit(program.Run("parley-easy", &rules.Easy{}, os.Args[1:], os.Stderr))
}
