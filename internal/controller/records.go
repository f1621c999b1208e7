package controller

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agent"
	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/project/load"
	"github.com/coppice-dev/coppice/internal/reconcile"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
)

// Records shows what the last daemon of a project has left, while none runs: its
// store, the slots of its agents, and their logs. It changes none of them. It is
// a Controller that is never launched, and has no supervisors.
type Records struct {
	*Controller
	project project.Project
	badFile error // why the configuration file cannot be used
	fate    string
	started time.Time // of the last daemon
	seen    map[string]agent.Slot
	records map[string]*agent.Record
	selves  map[string]*agent.SelfRecord
	ends    []func() error // in the order in which they were opened
}

// OpenRecords opens the records of the project of a configuration file. The error
// is a *LockedError if a daemon has the project. Where the file cannot be used, the
// tree is that of the records, see FileError.
func OpenRecords(ctx context.Context, file string) (*Records, error) {
	p, err := project.Open(file)
	if err != nil {
		return nil, err
	}
	if holder, locked := p.Locked(); locked {
		return nil, &project.LockedError{Project: p.Dir, Holder: holder}
	}
	files := load.New(nil, nil)
	r := &Records{
		fate: project.LastExit(file), started: p.Holder().Since,
		seen: make(map[string]agent.Slot), ends: []func() error{files.Programs.Close},
	}
	loaded := files.Load(file)
	if r.badFile = loaded.Err; loaded.Err == nil {
		p = p.WithPersistence(loaded.Tree.Persistence)
	}
	r.project = p
	if err := r.open(ctx, loaded, files); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Records) open(ctx context.Context, loaded reconcile.Loaded, files *load.Files) error {
	db, err := r.project.ReadStore(ctx)
	if err != nil {
		return err
	}
	r.ends = append(r.ends, db.Close)
	stored, _, err := db.Snapshot(ctx, agent.RecordPrefix)
	if err != nil {
		return fmt.Errorf("reading what the last daemon knew: %w", err)
	}
	r.records, r.selves, _ = agent.ReadRecords(stored)
	runtimes, err := r.project.ExistingRuntimes(files.Logger)
	for _, rt := range runtimes {
		r.ends = append(r.ends, rt.Close)
	}
	if err != nil {
		return err
	}
	if err := r.look(ctx, runtimes); err != nil {
		return err
	}
	r.Controller, err = newController(Options{
		Tree: r.tree(loaded.Tree), Store: db, Runtimes: runtimes,
		Logger: files.Logger, Config: loaded.Config, Work: r.project.RunRequests(),
	})
	if err != nil {
		return err
	}
	r.ends = append(r.ends, r.closeLog)
	return r.read(ctx)
}

// Register has a server answer with what is on record.
func (r *Records) Register(s *api.Server) {
	r.status.Register(s)
	r.output.RegisterReadOnly(s)
	feed.Handle(s, func(ctx context.Context, q event.Query) iter.Seq2[event.Event, error] {
		follow := q.Follow
		q.Follow = false
		return api.Finite(r.Events(ctx, q), follow)
	})
	r.beliefs.RegisterReadOnly(s)
	r.mail.RegisterReadOnly(s)
	r.work.RegisterReadOnly(s)
	r.questions.RegisterReadOnly(s)
	r.quotas.RegisterReadOnly(s)
	r.budgets.RegisterReadOnly(s)
	r.costs.Register(s)
	r.workers.RegisterReadOnly(s)
	r.orders.RegisterReadOnly(s)
}

// FileError returns why the configuration file cannot be used; nil if it can.
func (r *Records) FileError() error { return r.badFile }

// tree is that of the file, with the instances of pools that live; or else that of
// all that is on record.
func (r *Records) tree(declared *spec.Tree) *spec.Tree {
	if declared != nil {
		return declared.Populated(func(yield func(string) bool) {
			for path, s := range r.seen {
				if s.Lives() && !yield(path) {
					return
				}
			}
		})
	}
	known := make(map[string]bool)
	for path := range r.records {
		known[path] = true
	}
	for path := range r.seen {
		known[path] = true
	}
	root := &spec.Node{Name: filepath.Base(r.project.Dir)}
	nodes := make(map[string]*spec.Node)
	for _, path := range slices.Sorted(maps.Keys(known)) { // what is above comes first
		if first, _, _ := strings.Cut(path, "/"); len(nodes) == 0 {
			root.Name = first
			nodes[first] = root
		}
		above, name, below := cutLast(path)
		if parent := nodes[above]; below && parent != nil {
			n := &spec.Node{Name: name}
			nodes[path] = n
			parent.Children = append(parent.Children, spec.Child{Node: n})
		}
	}
	childlessAreAgents(root)
	return &spec.Tree{Root: root, Patrol: spec.DefaultPatrol()}
}

// childlessAreAgents makes agents of the nodes below one that have nothing below them.
func childlessAreAgents(n *spec.Node) {
	for i, c := range n.Children {
		if len(c.Node.Children) == 0 {
			n.Children[i] = spec.Child{Agent: &spec.Agent{Name: c.Node.Name}}
		} else {
			childlessAreAgents(c.Node)
		}
	}
}

// look finds out what runs in the slots.
func (r *Records) look(ctx context.Context, runtimes []runtime.Runtime) error {
	all, err := agent.ListSlots(ctx, runtimes)
	for _, s := range all {
		last, ok := r.seen[s.Path]
		if !ok || s.Lives() && !last.Lives() || s.Lives() == last.Lives() && s.Incarnation > last.Incarnation {
			r.seen[s.Path] = s
		}
	}
	return err
}

// read reads the store.
func (r *Records) read(ctx context.Context) error {
	for path, rec := range r.records {
		r.journal.Restore(path, rec.Incarnation)
	}
	if _, err := r.readBeliefs(ctx); err != nil {
		return err
	}
	if err := r.openFeatures(ctx); err != nil {
		return err
	}
	r.ends = append(r.ends, func() error { r.questions.Close(); return nil })
	if err := r.openWork(ctx); err != nil {
		return err
	}
	r.ends = append(r.ends, func() error { r.work.Close(); return nil })
	if err := r.control.Restore(ctx); err != nil {
		return err
	}
	var err error
	r.status = status.NewRecorded(r.statusOptions(), r.recorded())
	r.orders, err = dispatch.Open(ctx, dispatch.Options{
		Store: r.opts.Store, Log: r.log, Orders: r.opts.Tree.Orders, Logger: r.opts.Logger,
		Held: orderHost{r.Controller}.held,
	})
	return err
}

// statusOptions differ from those of a daemon in what the file and the store are.
func (r *Records) statusOptions() status.Options {
	source := modelSource{r.Controller}
	o := source.options()
	o.Config = func() status.Config {
		config := source.config()
		if r.badFile != nil {
			config.LastError = r.badFile.Error()
		}
		return config
	}
	o.Store = func() status.Store {
		s := source.store()
		if path := r.project.Database(); path != "" {
			s.Kind, s.Path = "sqlite", path // also where there is none yet
		}
		return s
	}
	return o
}

// recorded returns what the model of a project without a daemon reads.
func (r *Records) recorded() status.Recorded {
	rec := status.Recorded{
		Started: r.started, Fate: r.fate, Forgets: r.fleet().Forgets, Records: make(map[string]status.Record),
		Counted: make(map[string][]time.Time), Slots: make(map[string]runtime.Observation),
	}
	for path, n := range r.records {
		rec.Records[path] = status.Record{Saved: *n.Saved(), Ended: n.Ended, Lasts: n.IsKept()}
	}
	for path, self := range r.selves {
		rec.Counted[path] = self.Counted
	}
	for path, s := range r.seen {
		rec.Slots[path] = s.Observation
	}
	return rec
}

// closeLog ends the log, which has nothing to write.
func (r *Records) closeLog() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return r.log.Close(ctx)
}

// Close lets go of everything.
func (r *Records) Close() error {
	var errs []error
	for _, end := range slices.Backward(r.ends) {
		errs = append(errs, end())
	}
	r.ends = nil
	return errors.Join(errs...)
}
