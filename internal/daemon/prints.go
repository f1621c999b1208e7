package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
)

// prints knows what incarnations were started with, and what they would be
// started with now.
type prints struct {
	lookout *lookout
	mu      sync.Mutex
	began   map[string]*beginning // by path
	kept    map[string]*keptPrint // of the last controller, by path
	saving  bool                  // somebody writes what was learnt
}

// beginning is what an incarnation was started with.
type beginning struct {
	who    api.Caller
	at     time.Time
	print  spec.Print
	unread bool // what was in some of its files is not known yet
	learnt bool // the print is more than the store has been told with an event
}

// undeclared is the field that has drifted where only the whole is known.
const undeclared = "declaration"

// keptPrint is the print of an incarnation as the store has it.
type keptPrint struct {
	Incarnation uint64     `json:"incarnation"`
	Print       spec.Print `json:"print"`
}

func newPrints(l *lookout) *prints {
	return &prints{lookout: l, began: make(map[string]*beginning), kept: make(map[string]*keptPrint)}
}

// wanted is the print of an agent as it is declared now.
func (p *prints) wanted(f *fleet, path string) spec.Print {
	if a := f.agents[path]; len(a.Files) > 0 || len(a.EnvFiles) > 0 {
		return a.Print(p.lookout.hash)
	}
	return f.prints[path]
}

// begin notes that an incarnation is started.
func (p *prints) begin(who api.Caller, a *spec.Agent) {
	files := filesOf(a)
	p.lookout.watch(files)
	b := &beginning{who: who, at: time.Now(), unread: len(files) > 0}
	b.print = a.Print(func(string) string { return spec.Unread })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began[who.Path] = b
}

// adopted notes that an incarnation is taken over, of which a runtime knows the
// fingerprint, and the store perhaps more.
func (p *prints) adopted(o runtime.Observation, a *spec.Agent) {
	who := api.Caller{Path: o.Path, Incarnation: o.Incarnation}
	p.begin(who, a)
	p.mu.Lock()
	defer p.mu.Unlock()
	b, kept := p.began[who.Path], p.kept[who.Path]
	delete(p.kept, who.Path)
	switch {
	case kept != nil && kept.Incarnation == o.Incarnation && kept.Print.Known():
		b.print, b.unread = kept.Print, kept.Print.Unread()
	case o.Fingerprint == "":
		b.print, b.unread = spec.Print{}, false
	case o.Fingerprint != a.Fingerprint():
		// Something differs, and nobody knows any more what.
		b.print.Parts = append(b.print.Parts, spec.Part{Field: undeclared, Hash: o.Fingerprint})
		b.print.Sum, b.unread = o.Fingerprint, false
	}
}

// of is the print of a living incarnation; not known if there is none.
func (p *prints) of(who api.Caller) spec.Print {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.began[who.Path]
	if b == nil || b.who != who {
		return spec.Print{}
	}
	p.read(b)
	return b.print
}

// last returns the print of an incarnation that has ended; not known if there is
// none. The incarnation may be one of the controller before.
func (p *prints) last(who api.Caller) spec.Print {
	print := p.of(who)
	p.mu.Lock()
	defer p.mu.Unlock()
	if kept := p.kept[who.Path]; !print.Known() && kept != nil && kept.Incarnation == who.Incarnation {
		return kept.Print
	}
	return print
}

// read fills in what was in the files, as soon as they have been read once
// since the start, or since the daemon has known the agent. Needs mu.
func (p *prints) read(b *beginning) {
	if b.unread {
		before := b.print.Sum
		b.print = b.print.Read(func(path string) string {
			if hash, at := p.lookout.known(path); at.After(b.at) {
				return hash
			}
			return spec.Unread
		})
		b.unread = b.print.Unread()
		b.learnt = b.learnt || b.print.Sum != before
	}
}

// learnt are the prints of which the store does not know all, by path; with
// those that are learnt again if nobody has written them.
func (p *prints) learnt() map[string]keptPrint {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all map[string]keptPrint
	for path, b := range p.began {
		if b.learnt && !p.saving {
			if all == nil {
				all = make(map[string]keptPrint)
			}
			all[path] = keptPrint{b.who.Incarnation, b.print}
		}
	}
	p.saving = p.saving || all != nil
	return all
}

// saved: what was learnt is written, or not.
func (p *prints) saved(all map[string]keptPrint, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saving = false
	for path, k := range all {
		if b := p.began[path]; ok && b != nil && b.who.Incarnation == k.Incarnation && b.print.Sum == k.Print.Sum {
			b.learnt = false
		}
	}
}

// printPrefix is where the prints are that were learnt after the event of the
// start, with which the store was told what was known then.
const printPrefix = "prints"

func printKey(path string) string { return printPrefix + "/" + storePath(path) }

// latePrint is the print of an agent as it is in the store.
type latePrint struct {
	Path string `json:"path"`
	keptPrint
}

// savePrints has written what was learnt of files since their agents have
// started: else a controller that is killed before the next event about one
// would leave nothing to compare its files with.
func (c *Controller) savePrints() {
	all := c.prints.learnt()
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
			op := store.Op{Kind: store.Put, Key: printKey(path)}
			op.Value, _ = json.Marshal(latePrint{path, k}) // strings and numbers
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
		c.prints.saved(all, err == nil)
	})
}

// recallPrints reads what was learnt late.
func (c *Controller) recallPrints(ctx context.Context) error {
	stored, _, err := c.opts.Store.Snapshot(ctx, printPrefix)
	if err != nil {
		return fmt.Errorf("reading what the files of agents had in them: %w", err)
	}
	for _, s := range stored {
		var late latePrint
		if json.Unmarshal(s.Value, &late) == nil && late.Path != "" && late.Print.Known() {
			c.prints.recallLate(late.Path, &late.keptPrint)
		}
	}
	return nil
}

// keep is what the store is to know of an incarnation; nil if nothing is known.
func (p *prints) keep(path string, incarnation uint64) *keptPrint {
	print := p.of(api.Caller{Path: path, Incarnation: incarnation})
	if !print.Known() {
		return nil
	}
	return &keptPrint{incarnation, print}
}

// recall takes what the last controller has kept.
func (p *prints) recall(path string, k *keptPrint) {
	if k != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.kept[path] = k
	}
}

// recallLate is recall of what was learnt after the last event.
func (p *prints) recallLate(path string, k *keptPrint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.kept[path]; known == nil || k.Incarnation >= known.Incarnation {
		p.kept[path] = k
	}
}

// forget forgets an agent that is not wanted any more.
func (p *prints) forget(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.began, path)
	delete(p.kept, path)
}
