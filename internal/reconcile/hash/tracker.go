// Package hash tracks which configuration each incarnation of an agent was started with, and
// what that configuration is now. Both include the contents of the files that the agent
// reads, which a hasher reads in the background.
package hash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/token"
)

// Options are the parts of a daemon that a Tracker uses.
type Options struct {
	Store   store.Store
	Logger  *slog.Logger
	Go      func(func(context.Context)) // runs something in the background
	Changed func()                      // is called when a file has changed
	// Declared returns the hash of the declaration of an agent.
	Declared func(path string, a *spec.Agent) spec.Hash
}

// Tracker knows the hashes that incarnations were started with.
type Tracker struct {
	o     Options
	files *fileHasher

	mu      sync.Mutex
	started map[string]*start           // by path
	saved   map[string]*agent.SavedHash // by the previous daemon, by path
	saving  bool                        // a write to the store is under way
}

// start is the declaration with which an incarnation was started.
type start struct {
	who     token.Caller
	at      time.Time
	agent   *spec.Agent
	hash    spec.Hash
	partial bool // some of its files have not been read since the start
	unsaved bool // the hash has changed since the event of the start was written
}

// undeclared names the field that has drifted where only the sum of a hash is known.
const undeclared = "declaration"

// New returns a Tracker that knows no incarnation.
func New(o Options) *Tracker {
	return &Tracker{
		o: o, files: newFileHasher(o.Go, o.Changed),
		started: make(map[string]*start), saved: make(map[string]*agent.SavedHash),
	}
}

// Desired returns the hash of an agent as it is declared now. declared is its hash without
// the contents of files.
func (t *Tracker) Desired(a *spec.Agent, declared spec.Hash) spec.Hash {
	if len(a.Files) > 0 || len(a.EnvFiles) > 0 {
		return a.Hash(t.files.hash)
	}
	return declared
}

// Refresh hashes the files of a fleet again, in the background, and forgets all others.
func (t *Tracker) Refresh(files map[string]bool) {
	if len(files) > 0 {
		t.files.refresh(files)
	}
}

// Await hashes files again and waits until that is done, or until ctx ends.
func (t *Tracker) Await(ctx context.Context, files map[string]bool) { t.files.await(ctx, files) }

// Begin notes that an incarnation starts.
func (t *Tracker) Begin(who token.Caller, a *spec.Agent) {
	files := a.WatchedFiles()
	t.files.watch(files)
	b := &start{who: who, at: time.Now(), agent: a, partial: len(files) > 0}
	b.hash = t.o.Declared(who.Path, a)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started[who.Path] = b
}

// Adopt notes that a running incarnation is adopted. Its runtime knows the sum of its hash;
// the store may know all of it.
func (t *Tracker) Adopt(o runtime.Observation, a *spec.Agent) {
	who := token.Caller{Path: o.Path, Incarnation: o.Incarnation}
	t.Begin(who, a)
	t.mu.Lock()
	defer t.mu.Unlock()
	b, kept := t.started[who.Path], t.saved[who.Path]
	delete(t.saved, who.Path)
	switch {
	case kept != nil && kept.Incarnation == o.Incarnation && kept.Hash.Known():
		b.hash, b.partial = kept.Hash, kept.Hash.Incomplete()
	case o.SpecHash == "":
		b.hash, b.partial = spec.Hash{}, false
	case o.SpecHash != b.hash.Sum:
		b.hash, b.partial = OtherThan(b.hash, o.SpecHash), false
	}
}

// OtherThan returns the hash with a sum that differs from that of h in fields that are not known.
func OtherThan(h spec.Hash, sum string) spec.Hash {
	return spec.Hash{Sum: sum, Fields: append(slices.Clip(h.Fields), spec.FieldHash{Field: undeclared, Hash: sum})}
}

// Of returns the hash of the current incarnation of an agent; not known if it is another one.
func (t *Tracker) Of(who token.Caller) spec.Hash {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.started[who.Path]
	if b == nil || b.who != who {
		return spec.Hash{}
	}
	t.read(b)
	return b.hash
}

// Last returns the hash of an incarnation that has ended, possibly under the previous daemon.
func (t *Tracker) Last(who token.Caller) spec.Hash {
	hash := t.Of(who)
	t.mu.Lock()
	defer t.mu.Unlock()
	if kept := t.saved[who.Path]; !hash.Known() && kept != nil && kept.Incarnation == who.Incarnation {
		return kept.Hash
	}
	return hash
}

// read completes a hash with the contents of files that have been read since the incarnation
// started, or since the daemon adopted it. Needs mu.
func (t *Tracker) read(b *start) {
	if b.partial {
		before := b.hash.Sum
		b.hash = b.hash.Complete(b.agent, func(path string) string {
			if hash, at := t.files.known(path); at.After(b.at) {
				return hash
			}
			return spec.Unread
		})
		b.partial = b.hash.Incomplete()
		b.unsaved = b.unsaved || b.hash.Sum != before
	}
}

// takeUnsaved returns the hashes that the store does not have, by path; nil while others are
// being written.
func (t *Tracker) takeUnsaved() map[string]agent.SavedHash {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all map[string]agent.SavedHash
	for path, b := range t.started {
		if b.unsaved && !t.saving {
			if all == nil {
				all = make(map[string]agent.SavedHash)
			}
			all[path] = agent.SavedHash{Incarnation: b.who.Incarnation, Hash: b.hash}
		}
	}
	t.saving = t.saving || all != nil
	return all
}

// markSaved ends what takeUnsaved began. ok is false if the write failed: those hashes are
// taken again.
func (t *Tracker) markSaved(all map[string]agent.SavedHash, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saving = false
	for path, k := range all {
		if b := t.started[path]; ok && b != nil && b.who.Incarnation == k.Incarnation && b.hash.Sum == k.Hash.Sum {
			b.unsaved = false
		}
	}
}

// prefix is the part of the store with the hashes that were completed after the event of
// the start, which carries what was known then.
const prefix = "prints"

// Key returns the key of the hash of an agent in the store.
func Key(path string) string { return prefix + "/" + store.PathKey(path) }

// lateHash is the value of such a key.
type lateHash struct {
	Path string `json:"path"`
	agent.SavedHash
}

// Save writes, in the background, the hashes that were completed since their incarnations
// started. Otherwise a daemon that is killed before the next event about an agent would
// leave nothing to compare its files with.
func (t *Tracker) Save() {
	all := t.takeUnsaved()
	if all == nil {
		return
	}
	t.o.Go(func(ctx context.Context) {
		var err error
		var ops []store.Op
		size := 0
		flush := func() {
			if len(ops) > 0 {
				_, e := t.o.Store.Apply(ctx, store.Fence{}, nil, ops)
				err = errors.Join(err, e)
			}
			ops, size = nil, 0
		}
		for path, k := range all {
			op := store.Op{Kind: store.Put, Key: Key(path)}
			op.Value, _ = json.Marshal(lateHash{path, k}) // strings and numbers
			more := len(op.Key) + len(op.Value)
			if len(ops) == store.MaxOps || size+more > store.MaxApply {
				flush()
			}
			ops, size = append(ops, op), size+more
		}
		flush()
		if err != nil && ctx.Err() == nil {
			t.o.Logger.Debug("cannot save the hashes of files", "error", err)
		}
		t.markSaved(all, err == nil)
	})
}

// Load reads the hashes that Save has written.
func (t *Tracker) Load(ctx context.Context) error {
	stored, _, err := t.o.Store.Snapshot(ctx, prefix)
	if err != nil {
		return fmt.Errorf("reading the hashes of files: %w", err)
	}
	for _, s := range stored {
		var late lateHash
		if json.Unmarshal(s.Value, &late) == nil && late.Path != "" && late.Hash.Known() {
			t.restoreLate(late.Path, &late.SavedHash)
		}
	}
	return nil
}

// Saved returns what the store is to have of an incarnation; nil if nothing is known.
func (t *Tracker) Saved(path string, incarnation uint64) *agent.SavedHash {
	hash := t.Of(token.Caller{Path: path, Incarnation: incarnation})
	if !hash.Known() {
		return nil
	}
	return &agent.SavedHash{Incarnation: incarnation, Hash: hash}
}

// Restore notes what the previous daemon has saved of an agent. k may be nil.
func (t *Tracker) Restore(path string, k *agent.SavedHash) {
	if k != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.saved[path] = k
	}
}

// restoreLate is Restore for a hash that Save has written.
func (t *Tracker) restoreLate(path string, k *agent.SavedHash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.saved[path]; known == nil || k.Incarnation >= known.Incarnation {
		t.saved[path] = k
	}
}

// Forget forgets an agent that was removed.
func (t *Tracker) Forget(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.started, path)
	delete(t.saved, path)
}
