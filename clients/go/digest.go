package parley

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Digest returns the digest of the state as the mirror has it (R-DIG-1): SHA-256 over one line a
// fact, in hexadecimal. It costs as much as there are jobs and nodes.
func (v *View) Digest() string {
	sum := sha256.New()
	lines := bufio.NewWriter(sum)
	line := func(format string, arguments ...any) { fmt.Fprintf(lines, format+"\n", arguments...) }
	line("now %d", v.NowUS)
	pending := slices.Collect(maps.Keys(v.Held))
	for job := range v.Queue.All() {
		pending = append(pending, job.Number)
	}
	slices.Sort(pending)
	for _, number := range pending {
		line("pending %d", number)
	}
	for _, number := range slices.Sorted(maps.Keys(v.Held)) {
		line("held %d", number)
	}
	for _, number := range slices.Sorted(maps.Keys(v.Running)) {
		running := v.Running[number]
		line("running %d %d %s", number, running.StartUS, written(running.Spans))
	}
	totals := v.Cluster.totals()
	for _, resource := range v.Cluster.Resources() {
		line("free %s %d", resource, totals[resource])
	}
	for _, down := range v.Cluster.downRanges() {
		line("down %d-%d", down.First, down.Last)
	}
	for _, timer := range slices.Sorted(maps.Keys(v.Timers)) {
		line("timer %d %d", timer, v.Timers[timer])
	}
	lines.Flush()
	return hex.EncodeToString(sum.Sum(nil))
}

func written(spans []Span) string {
	text := ""
	for i, span := range spans {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf("%d-%d*%d", span.First, span.Last, span.Chunks)
	}
	return text
}
