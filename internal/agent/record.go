package agent

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

// RecordPrefix is the prefix of the keys of node records in the store.
const RecordPrefix = "nodes"

// orderlyKey is there while the last daemon has stopped everything in order: the next one then starts
// all agents.
const orderlyKey = "controller/orderly"

// Values of orderlyKey.
const (
	orderlyEnd = "true" // what was stopped by hand or held by a limit stays so
	onceEnd    = "once" // the tree was to live once: nothing stays
)

// MarkRunning returns the operation that records that a daemon runs.
func MarkRunning() store.Op { return store.Op{Kind: store.Delete, Key: orderlyKey} }

// MarkOrderly returns the operation that records that everything was stopped in order. If once, the
// tree was to live once.
func MarkOrderly(once bool) store.Op {
	how := orderlyEnd
	if once {
		how = onceEnd
	}
	return store.Op{Kind: store.Put, Key: orderlyKey, Value: []byte(how)}
}

// Record is the stored state of a node. It is written in one transaction with the event that it follows
// from: after a crash of the daemon the log and the records agree.
type Record struct {
	Path        string      `json:"path"`
	Incarnation uint64      `json:"incarnation"` // of the last event
	Ended       bool        `json:"ended"`       // that incarnation has, and its exit was handled
	State       string      `json:"state"`
	Reason      string      `json:"reason,omitempty"`
	Restarts    int         `json:"restarts,omitempty"`
	Attempt     int         `json:"attempt,omitempty"`
	Counted     []time.Time `json:"counted,omitempty"`
	NextAt      time.Time   `json:"next_at,omitzero"`
	StartedAt   time.Time   `json:"started_at,omitzero"`
	SavedAt     time.Time   `json:"saved_at,omitzero"` // by the clock that all these times are of
	LastExit    *savedExit  `json:"last_exit,omitempty"`
	Hash        *SavedHash  `json:"print,omitempty"` // of an incarnation that runs
	Self        *SelfRecord `json:"self,omitempty"`  // of a supervisor: its own window, in a record of its own
}

// SavedHash is the hash of an incarnation as the store has it.
type SavedHash struct {
	Incarnation uint64    `json:"incarnation"`
	Hash        spec.Hash `json:"print"`
}

// SelfRecord has the counters of a supervisor over all of its children.
type SelfRecord struct {
	Counted []time.Time `json:"counted,omitempty"`
	Paused  bool        `json:"paused,omitempty"`
	Probing bool        `json:"probing,omitempty"`
}

// savedExit is an exit in the form of shims, which keeps the identity of its error.
type savedExit struct {
	wire.End
	TooOftenBy string `json:"too_often_by,omitempty"` // of an TooOftenError
	Error      string `json:"error,omitempty"`        // instead of Failure, in records of earlier versions
}

// saveExit returns an exit without its last output, which is in the event of the exit; nil for no exit.
func saveExit(x supervisor.Exit) *savedExit {
	if x.Kind == supervisor.NoExit {
		return nil
	}
	end := wire.NewEnd(x, time.Time{})
	if f := end.Failure; f != nil && f.Exit != nil {
		f.Exit.LastOutput = nil
	}
	saved := &savedExit{End: *end}
	var often *TooOftenError
	if errors.As(x.Err, &often) {
		saved.TooOftenBy = often.Order
	}
	return saved
}

// RecordKey returns the key of a node's record.
func RecordKey(path string) string { return RecordPrefix + "/" + store.PathKey(path) + "/record" }

// Op returns the operation that writes the record.
func (r *Record) Op() store.Op {
	value, err := json.Marshal(r)
	if err != nil { // strings, numbers and times of this century
		value = []byte("{}")
	}
	return store.Op{Kind: store.Put, Key: RecordKey(r.Path), Value: value}
}

// ReadRecords decodes records. One that cannot be read is left out, and its key is returned.
func ReadRecords(stored []store.Record) (byPath map[string]*Record, selves map[string]*SelfRecord,
	unreadable []string) {
	byPath, selves = make(map[string]*Record, len(stored)), make(map[string]*SelfRecord)
	for _, s := range stored {
		var r Record
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

// NewRecord returns the record of a child after an event about it.
func NewRecord(path string, incarnation uint64, ended bool, saved supervisor.Saved) *Record {
	r := &Record{
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

// Saved returns the record in the form of the supervisor library.
func (r *Record) Saved() *supervisor.Saved {
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

// reasonOf returns the reason of a record, also in the words of earlier versions.
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
		e.Err = &TooOftenError{Order: x.TooOftenBy}
	}
	return e
}

// IsKept reports whether the state of the node survives the orderly end of a daemon.
func (r *Record) IsKept() bool {
	switch r.State {
	case supervisor.Suspended.String(), supervisor.Quarantined.String(), supervisor.GivenUp.String(),
		supervisor.Paused.String():
		return true
	}
	return false
}

// finishStop turns a stop by hand that was begun into the state of the node, and drops a stop
// that is half of a restart by hand.
func (r *Record) finishStop() {
	state := r.Saved().State
	switch why := reasonOf(r.Reason); {
	case why == supervisor.ReasonStopped && state == supervisor.Stopping:
		r.State = supervisor.Suspended.String()
	case why == supervisor.ReasonManual && state == supervisor.Suspended:
		r.State, r.Reason = supervisor.Waiting.String(), ""
	}
}

// isRestarting reports whether the last incarnation was being stopped, and the agent was to run again
// after that.
func (r *Record) isRestarting() bool {
	if r.Ended || r.State != supervisor.Stopping.String() {
		return false
	}
	switch reasonOf(r.Reason) {
	case supervisor.ReasonManual, supervisor.ReasonReplaced, supervisor.ReasonChanged, supervisor.ReasonRequested,
		supervisor.ReasonMoved,
		supervisor.ReasonSibling, supervisor.ReasonShutdown:
		return true
	}
	return false
}
