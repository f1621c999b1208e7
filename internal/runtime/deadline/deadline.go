// Package deadline keeps the time until which the agents of a node may run, in a file that all processes of the
// machine read.
//
// A node of a fleet holds a lease, and its agents are started on another node after the lease has ended and they
// have had time to stop. So they must have ended here by then, even if the daemon was killed or hangs. The daemon
// moves the deadline forward after each renewal of the lease (Writer). The processes next to the agents stop them at
// the deadline, and need no daemon for it (Watcher). A node that leaves the fleet ends its deadline early, and has them
// read it.
//
// The deadline is a time on a clock that all processes of the machine share, that goes on while the machine is
// suspended, and that cannot be set: CLOCK_BOOTTIME on Linux. A deadline of an earlier boot is over.
//
// Without a file there is no deadline. Otherwise doubt ends agents: a file that cannot be read counts as over, or as
// unchanged in a process that has read it before. The same holds there if the file was removed; see Writer.Lift.
package deadline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/nodename"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Instant is a time in nanoseconds on the clock of this package.
type Instant int64

// Add returns the time d later. It does not overflow.
func (i Instant) Add(d time.Duration) Instant {
	if sum := i + Instant(d); d < 0 || sum >= i {
		return sum
	}
	return 1<<63 - 1
}

// Until returns the time from now to i; it is negative if i has passed.
func (i Instant) Until(now Instant) time.Duration { return time.Duration(i - now) }

// LastGrace returns the time from the deadline to SIGKILL, for an agent with a grace period. It has an end even if a
// stop has none: another node does not wait forever.
func LastGrace(grace time.Duration) time.Duration {
	if grace <= 0 {
		return proc.DefaultGrace
	}
	return grace
}

// Spare is the time after LastGrace by which a shim or a keeper has ended its agent. Other nodes wait a second.
const Spare = 500 * time.Millisecond

// maxAhead bounds how far ahead a deadline is. Leases take seconds: a later one is a mistake.
const maxAhead = 24 * time.Hour

// maxFile bounds the file, in bytes.
const maxFile = 1 << 10

// version is that of the file.
const version = 1

// content is the content of the file.
type content struct {
	Version int     `json:"version"`
	None    bool    `json:"none,omitempty"` // there is no deadline
	Boot    string  `json:"boot,omitempty"`
	Until   Instant `json:"until,omitempty"` // 0 means that it is over
	Left    string  `json:"left,omitempty"`  // the node, if it is over because that has left the fleet
}

// Deadline is the content of a file. The zero value has passed.
type Deadline struct {
	none  bool
	until Instant
	left  string // the node that has left the fleet; "" if none has
}

// leftError is an ErrDeadline that came early: the node has left the fleet.
type leftError struct{ node string }

func (e *leftError) Error() string { return "stopped because node " + e.node + " has left the fleet" }
func (e *leftError) Unwrap() error { return runtime.ErrDeadline }

// parse returns the deadline that a text describes, in this boot.
func parse(text []byte, boot string, now Instant) (Deadline, error) {
	var c content
	if err := json.Unmarshal(text, &c); err != nil {
		return Deadline{}, fmt.Errorf("not a deadline: %w", err)
	}
	switch {
	case c.Version != version:
		return Deadline{}, fmt.Errorf("unknown version %d, expected %d", c.Version, version)
	case c.None && c.Boot == "" && c.Until == 0 && c.Left == "":
		return Deadline{none: true}, nil
	case c.None:
		return Deadline{}, errors.New(`not a deadline: "none" together with one`)
	case c.Boot == "":
		return Deadline{}, errors.New("not a deadline: without the ID of the boot")
	case c.Until < 0:
		return Deadline{}, fmt.Errorf("not a deadline: negative time %d", c.Until)
	case c.Left != "" && c.Until != 0:
		return Deadline{}, errors.New("not a deadline: of a node that has left the fleet, and has time nevertheless")
	case c.Boot != boot:
		return Deadline{}, nil
	case c.Until > now.Add(maxAhead):
		return Deadline{}, fmt.Errorf("deadline in %v, expected at most %v", c.Until.Until(now), maxAhead)
	}
	if c.Left != "" {
		if err := nodename.Check(c.Left); err != nil {
			return Deadline{}, fmt.Errorf("not a deadline: %w", err)
		}
	}
	return Deadline{until: c.Until, left: c.Left}, nil
}

// CheckPath returns an error if the name of a file is not absolute: the readers have different working directories.
func CheckPath(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("deadline in %.80q: expected the absolute name of a file", path)
	}
	return nil
}

// Load reads a file; "" means none. Without a file there is no deadline. With an error, which wraps
// runtime.ErrFenced, the deadline is over.
func Load(path string) (Deadline, error) {
	if path == "" {
		return Deadline{none: true}, nil
	}
	d, err := load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Deadline{none: true}, nil
	case err != nil:
		return Deadline{}, fmt.Errorf("%w: %w", runtime.ErrFenced, err)
	}
	return d, nil
}

// load is Load with all errors.
func load(path string) (Deadline, error) {
	text, err := private.ReadSecret(path, maxFile)
	if err != nil {
		return Deadline{}, fmt.Errorf("reading a deadline: %w", err)
	}
	boot, err := BootID()
	if err != nil {
		return Deadline{}, fmt.Errorf("reading a deadline: %w", err)
	}
	now, err := Now()
	if err != nil {
		return Deadline{}, err
	}
	d, err := parse(text, boot, now)
	if err != nil {
		return Deadline{}, fmt.Errorf("%s: %w; the daemon writes it again when it renews the lease of the node", path,
			err)
	}
	return d, nil
}

// Check reads a file as Load does, and fails as Deadline.Check.
func Check(path string) error {
	d, err := Load(path)
	if err != nil {
		return err
	}
	return d.Check()
}

// Check returns an error that wraps runtime.ErrFenced if the deadline is over now.
func (d Deadline) Check() error {
	if d.none {
		return nil
	}
	now, err := Now()
	if err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrFenced, err)
	}
	return d.check(now)
}

func (d Deadline) check(now Instant) error {
	switch {
	case d.none || now < d.until:
		return nil
	case d.until == 0:
		return fmt.Errorf("%w, and has not got one since", runtime.ErrFenced)
	}
	return fmt.Errorf("%w, since %v", runtime.ErrFenced, (-d.until.Until(now)).Round(time.Millisecond))
}

// Writer writes the file. It is safe for concurrent use, and the only writer of its file.
type Writer struct {
	path, boot string

	mu         sync.Mutex
	until      Instant // as written
	hasReserve bool
}

// NewWriter returns a Writer of a file, which may be missing or damaged. It writes nothing yet.
func NewWriter(path string) (*Writer, error) {
	boot, err := BootID()
	if err != nil {
		return nil, fmt.Errorf("writing deadlines: %w", err)
	}
	w := &Writer{path: path, boot: boot}
	w.findReserve()
	if d, err := load(path); err == nil {
		w.until = d.until
	}
	return w, nil
}

// Move moves the deadline forward. It does nothing if the deadline is as late already. until is the time at which
// the renewal of the lease was requested, and the duration of the lease after that.
func (w *Writer) Move(until Instant) error {
	now, err := Now()
	if err != nil {
		return err
	}
	if until > now.Add(maxAhead) {
		return fmt.Errorf("moving the deadline of the agents: %v from now, at most %v are allowed", until.Until(now),
			maxAhead)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if until <= w.until {
		return nil
	}
	return w.write(content{Version: version, Boot: w.boot, Until: until})
}

// Expire ends the deadline: nothing is started until it is moved. What runs is stopped when its Watcher checks the
// file, or at the deadline that this knows.
func (w *Writer) Expire() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(content{Version: version, Boot: w.boot})
}

// Leave is Expire by a node that leaves the fleet: the exits of its agents say so.
func (w *Writer) Leave(node string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(content{Version: version, Boot: w.boot, Left: node})
}

// Lift says that there is no deadline any longer: the machine leaves its fleet. Removing the file would end what
// runs at the last deadline.
func (w *Writer) Lift() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(content{Version: version, None: true})
}

// write replaces the file. It syncs nothing: after a power cut the boot is another one. Needs mu.
func (w *Writer) write(c content) error {
	text, err := json.Marshal(c)
	if err == nil {
		err = w.replace(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing the deadline of the agents: %w", err)
	}
	w.until = c.Until
	return nil
}
