// Package program is what the dispatchers of this folder have in common as programs: options, one
// line on what went wrong, an exit status.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"parley"
	"parley/rules"
)

// Exit statuses, those of parley dispatch.
const (
	complete    = 0
	incomplete  = 1
	wrongUsage  = 2
	interrupted = 130
)

// Run decides for one session by a rule and returns the exit status: 0 the run is complete, 1 it
// is not, 2 wrong usage, 130 interrupted.
func Run(name string, rule parley.Dispatcher, arguments []string, stderr io.Writer) int {
	options, rule, err := parse(name, rule, arguments)
	if errors.Is(err, flag.ErrHelp) {
		return complete
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		var end *parley.SessionEndBody
		if end, err = parley.Serve(ctx, rule, options); err == nil {
			if end.Complete() {
				return complete
			}
			fmt.Fprintf(stderr, "%s: the run ended as %s\n", name, end.Reason)
			return incomplete
		}
	}
	var usage *parley.UsageError
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(stderr, "%s: interrupted\n", name)
		return interrupted
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return wrongUsage
	default:
		fmt.Fprintf(stderr, "%s: %s\n", name, oneLine(err))
		return incomplete
	}
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// parse reads the command line and puts around the rule what it asks for.
func parse(name string, rule parley.Dispatcher, arguments []string) (parley.Options, parley.Dispatcher, error) {
	options := parley.Options{Name: name, Ask: "actionable"}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&options.Endpoint, "connect", "", "where the server listens, an `ENDPOINT`; PARLEY_ENDPOINT if not given")
	flags.StringVar(&options.SessionFile, "session-file", "",
		"the file at `PATH` keeps what it takes to go on after a crash; if it is there, go on")
	interval := flags.String("interval", "", "decide at multiples of so many `SECONDS` only")
	kill := flags.Bool("kill-overdue", false, "first kill running jobs whose walltime is over, in the order of their numbers")
	err := flags.Parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Printf("usage: %s [options]\n", name)
		flags.VisitAll(func(option *flag.Flag) {
			takes, text := flag.UnquoteUsage(option)
			fmt.Printf("  %-22s %s\n", "--"+option.Name+" "+takes, text)
		})
		return options, rule, err
	}
	if err != nil {
		return options, rule, &parley.UsageError{Reason: err.Error()}
	}
	if flags.NArg() > 0 {
		return options, rule, &parley.UsageError{Reason: "takes no argument " + strconv.Quote(flags.Arg(0))}
	}
	if *interval != "" {
		micros, err := microseconds(*interval)
		if err != nil {
			return options, rule, err
		}
		rule = &rules.Periodic{Rule: rule, IntervalUS: micros}
		options.Ask = "always"
	}
	if *kill {
		// It does something while no pending job could start.
		rule = &rules.KillOverdue{Rule: rule}
		options.Ask = "always"
	}
	return options, rule, nil
}

// microseconds reads seconds, be it with a unit: 30, 0.5, 30s.
func microseconds(text string) (int64, error) {
	seconds, err := strconv.ParseFloat(strings.TrimSuffix(text, "s"), 64)
	micros := math.Round(seconds * 1e6)
	if err != nil || !(micros >= 1) || micros > 1<<53 {
		return 0, &parley.UsageError{Reason: "--interval is a number of seconds above 0, not " + strconv.Quote(text)}
	}
	return int64(micros), nil
}
