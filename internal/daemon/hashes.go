package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/reconcile/fleet"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
)

// hashes knows what incarnations were started with, and what they would be
// started with now.
type hashes struct {
	lookout *lookout
	mu      sync.Mutex
	began   map[string]*beginning       // by path
	kept    map[string]*agent.SavedHash // of the last controller, by path
	saving  bool                        // somebody writes what was learnt
}

// beginning is what an incarnation was started with.
type beginning struct {
	who    api.Caller
	at     time.Time
	hash   spec.Hash
	unread bool // what was in some of its files is not known yet
	learnt bool // the hash is more than the store has been told with an event
}

// undeclared is the field that has drifted where only the whole is known.
const undeclared = "declaration"

func newHashes(l *lookout) *hashes {
	return &hashes{lookout: l, began: make(map[string]*beginning), kept: make(map[string]*agent.SavedHash)}
}

// wanted is the hash of an agent as it is declared now.
func (p *hashes) wanted(f *fleet.Fleet, path string) spec.Hash {
	if a := f.Agents[path]; len(a.Files) > 0 || len(a.EnvFiles) > 0 {
		return a.Hash(p.lookout.hash)
	}
	return f.Hashes[path]
}

// begin notes that an incarnation is started.
func (p *hashes) begin(who api.Caller, a *spec.Agent) {
	files := a.WatchedFiles()
	p.lookout.watch(files)
	b := &beginning{who: who, at: time.Now(), unread: len(files) > 0}
	b.hash = a.DeclaredHash()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began[who.Path] = b
}

// adopted notes that an incarnation is taken over, of which a runtime knows the
// sum of the hash, and the store perhaps more.
func (p *hashes) adopted(o runtime.Observation, a *spec.Agent) {
	who := api.Caller{Path: o.Path, Incarnation: o.Incarnation}
	p.begin(who, a)
	p.mu.Lock()
	defer p.mu.Unlock()
	b, kept := p.began[who.Path], p.kept[who.Path]
	delete(p.kept, who.Path)
	switch {
	case kept != nil && kept.Incarnation == o.Incarnation && kept.Hash.Known():
		b.hash, b.unread = kept.Hash, kept.Hash.Incomplete()
	case o.SpecHash == "":
		b.hash, b.unread = spec.Hash{}, false
	case o.SpecHash != b.hash.Sum:
		b.hash, b.unread = otherThan(b.hash, o.SpecHash), false
	}
}

// otherThan is a hash of which only the sum is known, and that it differs.
func otherThan(h spec.Hash, sum string) spec.Hash {
	return spec.Hash{Sum: sum, Fields: append(slices.Clip(h.Fields), spec.FieldHash{Field: undeclared, Hash: sum})}
}

// of is the hash of a living incarnation; not known if there is none.
func (p *hashes) of(who api.Caller) spec.Hash {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.began[who.Path]
	if b == nil || b.who != who {
		return spec.Hash{}
	}
	p.read(b)
	return b.hash
}

// last returns the hash of an incarnation that has ended; not known if there is
// none. The incarnation may be one of the controller before.
func (p *hashes) last(who api.Caller) spec.Hash {
	hash := p.of(who)
	p.mu.Lock()
	defer p.mu.Unlock()
	if kept := p.kept[who.Path]; !hash.Known() && kept != nil && kept.Incarnation == who.Incarnation {
		return kept.Hash
	}
	return hash
}

// read fills in what was in the files, as soon as they have been read once
// since the start, or since the daemon has known the agent. Needs mu.
func (p *hashes) read(b *beginning) {
	if b.unread {
		before := b.hash.Sum
		b.hash = b.hash.Complete(func(path string) string {
			if hash, at := p.lookout.known(path); at.After(b.at) {
				return hash
			}
			return spec.Unread
		})
		b.unread = b.hash.Incomplete()
		b.learnt = b.learnt || b.hash.Sum != before
	}
}

// learnt are the hashes of which the store does not know all, by path; with
// those that are learnt again if nobody has written them.
func (p *hashes) learnt() map[string]agent.SavedHash {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all map[string]agent.SavedHash
	for path, b := range p.began {
		if b.learnt && !p.saving {
			if all == nil {
				all = make(map[string]agent.SavedHash)
			}
			all[path] = agent.SavedHash{Incarnation: b.who.Incarnation, Hash: b.hash}
		}
	}
	p.saving = p.saving || all != nil
	return all
}

// saved: what was learnt is written, or not.
func (p *hashes) saved(all map[string]agent.SavedHash, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saving = false
	for path, k := range all {
		if b := p.began[path]; ok && b != nil && b.who.Incarnation == k.Incarnation && b.hash.Sum == k.Hash.Sum {
			b.learnt = false
		}
	}
}

// hashPrefix is where the hashes are that were learnt after the event of the
// start, with which the store was told what was known then.
const hashPrefix = "prints"

func hashKey(path string) string { return hashPrefix + "/" + store.PathKey(path) }

// lateHash is the hash of an agent as it is in the store.
type lateHash struct {
	Path string `json:"path"`
	agent.SavedHash
}

// saveHashes has written what was learnt of files since their agents have
// started: else a controller that is killed before the next event about one
// would leave nothing to compare its files with.
func (c *Controller) saveHashes() {
	all := c.hashes.learnt()
	if all == nil {
		return
	}
	c.background.run(func(ctx context.Context) {
		var err error
		var ops []store.Op
		size := 0
		flush := func() {
			if len(ops) > 0 {
				_, e := c.opts.Store.Apply(ctx, store.Fence{}, nil, ops)
				err = errors.Join(err, e)
			}
			ops, size = nil, 0
		}
		for path, k := range all {
			op := store.Op{Kind: store.Put, Key: hashKey(path)}
			op.Value, _ = json.Marshal(lateHash{path, k}) // strings and numbers
			more := len(op.Key) + len(op.Value)
			if len(ops) == store.MaxOps || size+more > store.MaxApply {
				flush()
			}
			ops, size = append(ops, op), size+more
		}
		flush()
		if err != nil && ctx.Err() == nil {
			c.opts.Logger.Debug("what is in the files of agents cannot be written down now", "error", err)
		}
		c.hashes.saved(all, err == nil)
	})
}

// recallHashes reads what was learnt late.
func (c *Controller) recallHashes(ctx context.Context) error {
	stored, _, err := c.opts.Store.Snapshot(ctx, hashPrefix)
	if err != nil {
		return fmt.Errorf("reading what the files of agents had in them: %w", err)
	}
	for _, s := range stored {
		var late lateHash
		if json.Unmarshal(s.Value, &late) == nil && late.Path != "" && late.Hash.Known() {
			c.hashes.recallLate(late.Path, &late.SavedHash)
		}
	}
	return nil
}

// keep is what the store is to know of an incarnation; nil if nothing is known.
func (p *hashes) keep(path string, incarnation uint64) *agent.SavedHash {
	hash := p.of(api.Caller{Path: path, Incarnation: incarnation})
	if !hash.Known() {
		return nil
	}
	return &agent.SavedHash{Incarnation: incarnation, Hash: hash}
}

// recall takes what the last controller has kept.
func (p *hashes) recall(path string, k *agent.SavedHash) {
	if k != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.kept[path] = k
	}
}

// recallLate is recall of what was learnt after the last event.
func (p *hashes) recallLate(path string, k *agent.SavedHash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.kept[path]; known == nil || k.Incarnation >= known.Incarnation {
		p.kept[path] = k
	}
}

// forget forgets an agent that is not wanted any more.
func (p *hashes) forget(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.began, path)
	delete(p.kept, path)
}
