package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/liveness"
	"github.com/coppice-dev/coppice/internal/store"
)

// drain is an incarnation that was asked to finish, and is stopped by then. It
// is kept in the store until it is done.
type drain struct {
	Path        string    `json:"path"`
	Incarnation uint64    `json:"incarnation"`
	Reason      string    `json:"reason,omitempty"`
	Until       time.Time `json:"until"`
	SavedAt     time.Time `json:"saved_at"` // by the clock that Until is of
	Finished    bool      `json:"finished,omitempty"`
	Renew       bool      `json:"renew,omitempty"`   // it is started again then
	Counted     bool      `json:"counted,omitempty"` // that start counts for its limit; see patrol.Action
	Pool        bool      `json:"pool,omitempty"`    // it is an instance that its pool does not want any more

	deadline time.Time     // Until, on the monotonic clock
	finished chan struct{} // closed when it says that it has finished
	ended    chan struct{} // closed when its incarnation has ended
	canceled chan struct{} // closed when it may go on
	done     chan struct{} // closed when it is stopped, or may go on
	err      error         // why it is not stopped; valid after done

	mu    sync.Mutex
	final bool   // it is being stopped, or may go on
	how   string // what has made its pool stop it
}

const drainPrefix = "drains"

// drainPause is the time between two tries to stop an agent that was drained.
const drainPause = 500 * time.Millisecond

const drainText = "coppice: you are asked to finish what you do. Please run: coppice agent hook"

func (d *drain) key() string { return drainPrefix + "/" + store.PathKey(d.Path) }

func (d *drain) open(left time.Duration) {
	d.deadline = time.Now().Add(left)
	d.finished, d.ended, d.canceled, d.done = make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	if d.Finished {
		close(d.finished)
	}
}

// left is how much time it has.
func (d *drain) left() time.Duration { return max(0, time.Until(d.deadline)) }

// close closes one of its channels, once.
func (d *drain) close(c chan struct{}) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-c:
		return false
	default:
		close(c)
		return true
	}
}

// settle reports whether the caller is the one who decides what becomes of it.
func (d *drain) settle() bool { return d.settleAs("") }

// settleAs is settle that notes what it was decided on.
func (d *drain) settleAs(how string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.final {
		return false
	}
	d.final, d.how = true, how
	return true
}

// decided is what settleAs has noted.
func (d *drain) decided() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.how
}

// renews reports whether it is started again when it has finished.
func (d *drain) renews() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Renew
}

// forGood makes it one that ends with a stop.
func (d *drain) forGood() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Renew = false
}

func (d *drain) hasFinished() bool {
	select {
	case <-d.finished:
		return true
	default:
		return false
	}
}

func (d *drain) hasEnded() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

// op writes it.
func (d *drain) op() store.Op {
	d.mu.Lock()
	defer d.mu.Unlock()
	value, _ := json.Marshal(d) // strings, numbers and times of this century
	return store.Op{Kind: store.Put, Key: d.key(), Value: value}
}

func (d *drain) shown() *api.Drain {
	if d == nil {
		return nil
	}
	return &api.Drain{Reason: d.Reason, Left: d.left().Seconds(), Finished: d.hasFinished()}
}

// notice is what its agent is told.
func (d *drain) notice() api.Notice {
	text := "You are asked to finish what you do"
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	return api.Notice{Kind: "drain", Text: fmt.Sprintf("%s. Run \"coppice agent drain-ack\" when you have; you are stopped then, and in %s in any case.",
		text, liveness.Brief(d.left().Round(time.Second)))}
}

// drainOf is the drain of an agent; nil if it is not asked to finish.
func (c *Controller) drainOf(path string) *drain {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drains[path]
}

func errNotDrained(path string) error {
	return fmt.Errorf("%w: %s is no longer being drained: it was started by hand, or the daemon that was asked kept no record", api.ErrConflict, path)
}

// wait waits until its agent is stopped.
func (d *drain) wait(ctx context.Context) error {
	select {
	case <-d.done:
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
