package parley

import (
	"fmt"
	"strings"
)

// UsageError is a fault of whoever started the program: an endpoint that is none, a file that
// holds something else.
type UsageError struct{ Reason string }

func (e *UsageError) Error() string { return e.Reason }

// LostError says that the server is gone, or never was there.
type LostError struct {
	Endpoint string
	Reason   string
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the server at %s %s", e.Endpoint, e.Reason)
}

// ProtocolError says that the server does not speak the protocol.
type ProtocolError struct {
	// Path names the field in question, such as body.now_us; empty if none is.
	Path   string
	Reason string
}

func (e *ProtocolError) Error() string {
	if e.Path == "" {
		return "the server does not speak the protocol: " + e.Reason
	}
	return fmt.Sprintf("the server does not speak the protocol: %s: %s", e.Path, e.Reason)
}

// RefusedError is an error that the server sent.
type RefusedError struct{ ErrorBody }

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("the server says %s: %s", e.Code, e.Message)
	if e.Path != nil && *e.Path != "" {
		text += fmt.Sprintf(" (%s)", *e.Path)
	}
	if len(e.Supported) > 0 {
		text += "; expected: " + strings.Join(e.Supported, ", ")
	}
	return text
}

// DecisionError says that a dispatcher decided what cannot be, such as to start a job that is
// not pending.
type DecisionError struct{ Reason string }

func (e *DecisionError) Error() string { return e.Reason }

// MirrorError says that the server told what cannot follow from what it had told before.
type MirrorError struct{ Reason string }

func (e *MirrorError) Error() string { return e.Reason }
