package daemon

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// nodePrefix is where the records of nodes are in the store.
const nodePrefix = "nodes"

// orderlyKey is there while the last controller has stopped everything in
// order: the next one then starts what is wanted anew.
const orderlyKey = "controller/orderly"

// Values of orderlyKey.
const (
	orderlyEnd = "true" // what was stopped by hand or held by a limit stays so
	onceEnd    = "once" // it was one life of the tree: nothing stays
)

// record is what the store knows of a node. It is written in one step with
// the event that it follows from, so that after a crash of the daemon the log
// and the records tell the same story, and what is missing from both is exactly
// what happened since.
type record struct {
	Path        string      `json:"path"`
	Incarnation uint64      `json:"incarnation"` // of the last event
	Ended       bool        `json:"ended"`       // that incarnation has, and it was dealt with
	State       string      `json:"state"`
	Reason      string      `json:"reason,omitempty"`
	Restarts    int         `json:"restarts,omitempty"`
	Attempt     int         `json:"attempt,omitempty"`
	Counted     []time.Time `json:"counted,omitempty"`
	NextAt      time.Time   `json:"next_at,omitzero"`
	StartedAt   time.Time   `json:"started_at,omitzero"`
	SavedAt     time.Time   `json:"saved_at,omitzero"` // by the clock that all these times are of
	LastExit    *savedExit  `json:"last_exit,omitempty"`
	Hash        *keptHash   `json:"print,omitempty"` // of an incarnation that lives
	Self        *selfRecord `json:"self,omitempty"`  // of a supervisor: its own window, in a record of its own
}

// savedExit is an exit as shims tell it, which keeps the identity of its error.
type savedExit struct {
	wire.End
	TooOftenBy string `json:"too_often_by,omitempty"` // of an order.TooOftenError
	Error      string `json:"error,omitempty"`        // instead of Failure, in records of versions before
}

// saveExit leaves out the last output, which the event of the exit has. It returns nil for no exit.
func saveExit(x supervisor.Exit) *savedExit {
	if x.Kind == supervisor.NoExit {
		return nil
	}
	end := wire.NewEnd(x, time.Time{})
	if f := end.Failure; f != nil && f.Exit != nil {
		f.Exit.LastOutput = nil
	}
	saved := &savedExit{End: *end}
	var often *order.TooOftenError
	if errors.As(x.Err, &often) {
		saved.TooOftenBy = often.Order
	}
	return saved
}

type selfRecord struct {
	Counted []time.Time `json:"counted,omitempty"`
	Paused  bool        `json:"paused,omitempty"`
	Probing bool        `json:"probing,omitempty"`
}

// nodeKey is the key of a node's record.
func nodeKey(path string) string { return nodePrefix + "/" + store.PathKey(path) + "/record" }

// op writes the record.
func (r *record) op() store.Op {
	value, err := json.Marshal(r)
	if err != nil { // strings, numbers and times of this century
		value = []byte("{}")
	}
	return store.Op{Kind: store.Put, Key: nodeKey(r.Path), Value: value}
}

// readRecords decodes what the store knows. A record that cannot be read costs
// its own node the memory, nothing else.
func readRecords(stored []store.Record) (byPath map[string]*record, selves map[string]*selfRecord,
	unreadable []string) {
	byPath, selves = make(map[string]*record, len(stored)), make(map[string]*selfRecord)
	for _, s := range stored {
		var r record
		if json.Unmarshal(s.Value, &r) != nil || r.Path == "" {
			unreadable = append(unreadable, s.Key)
			continue
		}
		if r.Self != nil {
			selves[r.Path] = r.Self
		} else {
			byPath[r.Path] = &r
		}
	}
	return byPath, selves, unreadable
}

// newRecord is the record of a child after an event about it.
func newRecord(path string, incarnation uint64, ended bool, saved supervisor.Saved) *record {
	r := &record{
		Path: path, Incarnation: incarnation, Ended: ended, State: saved.State.String(), Reason: saved.Reason.String(),
		Restarts: saved.Restarts, Attempt: saved.Attempt, Counted: saved.Counted, NextAt: saved.NextAt,
		StartedAt: saved.StartedAt, SavedAt: saved.At,
		LastExit: saveExit(saved.LastExit),
	}
	if saved.State == supervisor.Stopped && (saved.Reason == supervisor.ReasonShutdown ||
		saved.Reason == supervisor.ReasonLimitEscalate) {
		r.State = supervisor.Waiting.String() // its supervisor has ended, and starts it again
	}
	return r
}

// saved is what the supervisor library makes of the record.
func (r *record) saved() *supervisor.Saved {
	s := &supervisor.Saved{
		Incarnation: r.Incarnation, Restarts: r.Restarts, Attempt: r.Attempt, Counted: r.Counted,
		NextAt: r.NextAt, StartedAt: r.StartedAt, At: r.SavedAt, State: supervisor.Waiting,
	}
	if r.LastExit != nil {
		s.LastExit = r.LastExit.exit()
	}
	for st := supervisor.Stopped; st <= supervisor.Suspended; st++ {
		if st.String() == r.State {
			s.State = st
		}
	}
	s.Reason = reasonOf(r.Reason)
	return s
}

// reasonOf is the reason of a record, also in the words of versions before.
func reasonOf(text string) supervisor.Reason {
	for _, reason := range supervisor.Reasons() {
		if reason.String() == text {
			return reason
		}
	}
	switch text {
	case "permanent children are always restarted":
		return supervisor.ReasonPermanent
	case "transient children are restarted after a failure":
		return supervisor.ReasonTransientFailed
	case "transient children stay down after a clean exit":
		return supervisor.ReasonTransientClean
	case "temporary children are never restarted":
		return supervisor.ReasonTemporary
	}
	return supervisor.NoReason
}

func (x *savedExit) exit() supervisor.Exit {
	e := x.Exit()
	if x.Error != "" {
		e.Err = errors.New(x.Error)
	}
	if x.TooOftenBy != "" {
		e.Err = &order.TooOftenError{Order: x.TooOftenBy}
	}
	return e
}
