package parley

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ticket is a session and the token that proves whose it is.
type ticket struct {
	Session string `json:"session"`
	Token   string `json:"token"`
}

// ticketFile is where the ticket of a session lies for the time that it is open; an empty path
// keeps it in memory only.
type ticketFile string

// find returns the ticket of a session that broke off, nil if there is none: that of the
// environment, which a server sets that starts a dispatcher again (R-RES-12), or that of the file.
func (f ticketFile) find() (*ticket, error) {
	session, token := os.Getenv("PARLEY_SESSION"), os.Getenv("PARLEY_TOKEN")
	if session != "" && token != "" {
		return &ticket{session, token}, nil
	}
	if f == "" {
		return nil, nil
	}
	content, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var found ticket
	if err == nil {
		err = json.Unmarshal(content, &found)
	}
	if err != nil || found.Session == "" || found.Token == "" {
		return nil, &UsageError{Reason: fmt.Sprintf(
			"%s: not the file of a session; remove it to begin anew", f)}
	}
	return &found, nil
}

// keep notes the ticket of the session that is open now; only the user may read it.
func (f ticketFile) keep(held *ticket) error {
	if f == "" {
		return nil
	}
	content, err := json.Marshal(held)
	if err == nil {
		err = os.WriteFile(string(f)+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(string(f)+".new", string(f))
	}
	if err != nil {
		return &UsageError{Reason: fmt.Sprintf("%s: cannot be written: %v", f, errors.Unwrap(err))}
	}
	return nil
}

// forget: the session is over, there is nothing to take up.
func (f ticketFile) forget() {
	if f != "" {
		_ = os.Remove(string(f)) // one that is not there any more need not be removed
	}
}
