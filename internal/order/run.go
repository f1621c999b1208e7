package order

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// Run is the record of a run of an order. It is stored before the run starts.
type Run struct {
	Number  uint64    `json:"number"`
	Order   string    `json:"order"`
	Reason  string    `json:"reason"`
	By      string    `json:"by,omitempty"` // the person or order that fired it; its gates if empty
	Status  Status    `json:"status"`
	Attempt int       `json:"attempt"` // from 1
	FiredAt time.Time `json:"fired_at"`
	// StartedAt and EndedAt are the times of the last attempt.
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// RetryAt is the time of the next attempt, if the last one has failed.
	RetryAt  time.Time     `json:"retry_at,omitzero"`
	Code     *int          `json:"code,omitempty"`
	Signal   string        `json:"signal,omitempty"`
	Error    string        `json:"error,omitempty"`
	Duration time.Duration `json:"duration_ns,omitempty"` // of the last attempt
	Task     string        `json:"task,omitempty"`        // the task that was created
	Events   *Batch        `json:"events,omitempty"`
	Causes   []string      `json:"causes,omitempty"` // orders that have led to it
	Timeout  time.Duration `json:"timeout_ns,omitempty"`
	Boot     string        `json:"boot,omitempty"` // of the machine, when the attempt was stored
}

// Status is the status of a run.
type Status string

// Statuses of a run.
const (
	Running     Status = "running"
	Waiting     Status = "retrying" // for its next attempt
	Completed   Status = "completed"
	Failed      Status = "failed"
	TimedOut    Status = "timed out"
	Stopped     Status = "stopped"
	Interrupted Status = "interrupted" // its end is unknown
)

// Over reports whether the run has ended and no attempt follows.
func (s Status) Over() bool { return s != Running && s != Waiting }

// Retry returns the delay before the next attempt, if one follows.
func Retry(o *Order, attempt int, s Status) (delay time.Duration, again bool) {
	if s == Completed || s == Stopped || attempt > o.Retries {
		return 0, false
	}
	return o.Backoff.Delay(attempt - 1), true
}

// MaxName bounds the name of an order, in bytes.
const MaxName = 100

// CheckName returns an error if the name of an order is invalid.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty, expected a name")
	case len(name) > MaxName:
		return fmt.Errorf("has %d bytes, expected at most %d", len(name), MaxName)
	case name[0] == '.' || name[0] == '-' || strings.IndexFunc(name, isStrange) >= 0:
		return fmt.Errorf("is %s, expected letters, digits, dots, dashes and underscores, not "+
			"beginning with a dot or a dash", spec.Quote(name))
	}
	return nil
}

func isStrange(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}
