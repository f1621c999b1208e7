package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/config/envfile"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/pool"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// errLost: the slot of an incarnation that should run is gone.
var errLost = errors.New("lost: nothing is left of it, not even how it ended")

// past is what is known from before the controller started.
type past struct {
	orderly    bool // the last controller has stopped everything
	records    map[string]*record
	selves     map[string]*selfRecord
	forgets    func(path string) bool // what the limit over a node has counted and decided
	forgetsOwn func(path string) bool // the same of what a supervisor counts over its children
	adopt      map[string]adoption
}

// recall compares what the store says with what the runtimes have: what lives or
// ended unseen is to be adopted, what is missing is lost, what nobody wants is stopped.
func (c *Controller) recall(ctx context.Context) (*past, error) {
	stored, _, err := c.opts.Store.Snapshot(ctx, nodePrefix)
	if err != nil {
		return nil, fmt.Errorf("reading what the last controller knew: %w", err)
	}
	orderly, _, err := c.opts.Store.Snapshot(ctx, orderlyKey)
	if err != nil {
		return nil, fmt.Errorf("reading how the last controller ended: %w", err)
	}
	records, selves, unreadable := readRecords(stored)
	once := len(orderly) > 0 && string(orderly[0].Value) == onceEnd
	for path, r := range records {
		switch {
		case once:
			*r = record{Path: path, Incarnation: r.Incarnation, Ended: true, State: supervisor.Waiting.String()}
		case len(orderly) > 0 && !r.lasts():
			r.State, r.Ended = supervisor.Waiting.String(), true
		default:
			r.finishStop()
		}
	}
	if once {
		clear(selves)
	}
	for _, key := range unreadable {
		c.opts.Logger.Warn("a record of a node cannot be read and is ignored", "key", key)
	}
	if err := c.restorePools(ctx, records, len(orderly) > 0); err != nil {
		return nil, err
	}
	if err := c.restoreDrains(ctx, records); err != nil {
		return nil, err
	}
	if err := c.recallRestarts(ctx, records); err != nil {
		return nil, err
	}
	found, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	c.tellEmptied(found)
	c.adoptInstances(found)
	for path, r := range records {
		if r.Incarnation > 0 {
			c.journal.recall(path, r.Incarnation)
			c.hashes.recall(path, r.Hash)
		}
	}
	if err := c.recallHashes(ctx); err != nil {
		return nil, err
	}
	c.endWithController(records)
	p := &past{orderly: len(orderly) > 0, records: records, selves: selves, adopt: c.adopt}
	p.forgets, p.forgetsOwn = c.fleet().forgets, c.fleet().forgetsOwn
	var orphans []sighting
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if c.fleet().agents[path] == nil || c.isDown(path, records) {
			orphans = append(orphans, found[path]...)
		} else {
			c.assign(path, found[path], p)
		}
	}
	if c.opts.Once {
		c.renew(found, p)
	}
	for path, r := range records {
		if found[path] == nil && c.fleet().agents[path] != nil && !c.within(path) && !r.Ended && r.Incarnation > 0 &&
			!c.isDown(path, records) {
			c.adopt[path] = adoption{kind: c.home(path).Kind(), incarnation: r.Incarnation} // and find that it is lost
		}
	}
	c.clear(ctx, orphans)
	c.amnesty(p)
	return p, nil
}

// tellEmptied says that the store has nothing although agents ran here: it was removed
// with its mark, or all of the directory was.
func (c *Controller) tellEmptied(found map[string][]sighting) {
	if _, durable := c.opts.Store.(interface{ Path() string }); !durable || c.before > 0 || len(found) == 0 {
		return
	}
	message := fmt.Sprintf(
		"the store is empty, but %d agents have run here: beliefs, tasks and events of before are gone; coppice "+
			"restore FILE brings a backup back",
		len(found))
	c.opts.Logger.Warn(message)
	c.log.Append(event.Event{Type: event.StoreDamaged, Actor: "controller", Message: message})
}

// amnesty tells of each node that the last controller has held, and that this
// one starts because it does not know of that: a controller that is started again and
// again gives it its budget each time, and that shows.
func (c *Controller) amnesty(p *past) {
	f := c.fleet()
	for _, path := range f.order {
		r := p.records[path]
		if r == nil || c.opts.Once || hasAidefile(f.agents[path]) || !p.forgets(path) {
			continue
		}
		kind := event.AgentReleased
		if f.nodes[path] != nil {
			kind = event.SupervisorReleased
		}
		switch s := r.saved(); s.State {
		case supervisor.Quarantined, supervisor.GivenUp:
			held := s.State
			forget(s)
			c.log.Append(event.Event{
				Type: kind, Path: path, Incarnation: r.Incarnation, Actor: "controller",
				Message: fmt.Sprintf("%s is started and no longer %v: the counters of its limit ended with "+
					"the daemon that kept them", path, held),
			}.With(event.Cause{Reason: "controller restarted"}), newRecord(path, r.Incarnation, r.Ended, *s).op())
		}
	}
}

// lasts: what state the node was in holds over an orderly end of the controller.
func (r *record) lasts() bool {
	switch r.State {
	case supervisor.Suspended.String(), supervisor.Quarantined.String(), supervisor.GivenUp.String(),
		supervisor.Paused.String():
		return true
	}
	return false
}

// isDown: the agent, or a supervisor above it, was stopped by hand, and that
// still holds.
func (c *Controller) isDown(path string, records map[string]*record) bool {
	for ok := !c.opts.Once; ok; path, _, ok = cutLast(path) {
		if r := records[path]; r != nil && r.State == supervisor.Suspended.String() {
			return true
		}
	}
	return false
}

// of is the record of a node.
func (p *past) of(path string) *record {
	if p.records[path] == nil {
		p.records[path] = &record{Path: path}
	}
	return p.records[path]
}

// resume decides what becomes of the last incarnation of an agent that is wanted.
func (c *Controller) resume(o sighting, p *past) {
	path := o.Path
	r := p.of(path)
	if o.Life == runtime.Unknown {
		// A damaged slot does not know it.
		o.Incarnation = max(o.Incarnation, r.Incarnation)
		if o.StartedAt.IsZero() {
			o.StartedAt = r.StartedAt
		}
	}
	if o.Incarnation == r.Incarnation && r.Ended && o.Life == runtime.Dead {
		return // dealt with
	}
	if asked := o.Exit.Kind == supervisor.ShutDown ||
		errors.Is(o.Exit.Err, supervisor.ErrKilled); o.Life == runtime.Dead && r.Incarnation == 0 && asked {
		// It has obeyed, and who knew why is gone with the state. It did not fail.
		r.Incarnation, r.Ended, r.State = o.Incarnation, true, supervisor.Waiting.String()
		return
	}
	if o.Incarnation == r.Incarnation && o.Life != runtime.Unknown && r.isRestarting() && !c.opts.Once &&
		!hasAidefile(c.fleet().agents[path]) {
		c.finishRestart(o, r)
		return
	}
	// What happened between the last record and the last incarnation.
	for _, b := range o.Before {
		if b.Incarnation > r.Incarnation || b.Incarnation == r.Incarnation && !r.Ended {
			c.untold(r, b.Incarnation, o.StartedAt)
			c.missed(r, b)
		}
	}
	c.untold(r, o.Incarnation, o.StartedAt)
	late := o.Incarnation > r.Incarnation
	r.Incarnation, r.Ended, r.State, r.StartedAt = o.Incarnation, false, supervisor.Running.String(), o.StartedAt
	if late {
		c.log.Append(event.Event{
			Time: o.StartedAt, Type: event.AgentStarted, Path: path, Incarnation: o.Incarnation, Actor: "supervisor",
			Message: fmt.Sprintf("%s started, incarnation %d; noticed later", path, o.Incarnation),
		}.With(event.Late{Late: true}), r.op())
	}
	p.adopt[path] = adoption{o.kind, o.Incarnation, late, o.ExitedAt}
	c.resumed(context.Background(), o.Observation) // nobody writes yet: there is nothing to wait for
}

// renew lets one life of the tree begin: what lives is taken over with fresh
// counters, all else is numbered from 1 again. How it ended is told, if nobody has yet.
func (c *Controller) renew(found map[string][]sighting, p *past) {
	for path, r := range p.records {
		from, lives := p.adopt[path]
		end := runtime.Ended{Incarnation: r.Incarnation, ExitedAt: time.Now(), Exit: lost{}.Exit()}
		if i := slices.IndexFunc(found[path], func(s sighting) bool { return lives && s.kind == from.kind }); i >= 0 {
			s := found[path][i]
			lives = s.Life != runtime.Dead
			end = runtime.Ended{Incarnation: s.Incarnation, ExitedAt: s.ExitedAt, Exit: s.Exit}
		} else {
			lives = false
		}
		if !lives {
			if c.fleet().agents[path] != nil && !r.Ended && r.Incarnation > 0 {
				c.missed(r, end)
			}
			delete(p.adopt, path)
			c.journal.forgetStarts(path)
			c.over(path, from.incarnation, "")
			r.Incarnation, r.StartedAt = 0, time.Time{}
		}
		*r = record{Path: path, Incarnation: r.Incarnation, StartedAt: r.StartedAt, Ended: !lives,
			State: supervisor.Waiting.String()}
	}
	clear(p.selves)
}

// untold reports that an agent was restarted, up to the incarnation next, and
// nobody is left who could say more: its controller was killed while the store
// took no writes. The restarts are counted, so that this gives no fresh budget.
func (c *Controller) untold(r *record, next uint64, at time.Time) {
	first := r.Incarnation // whose end is missing
	if r.Ended {
		first++
	}
	if r.Incarnation == 0 || next <= first {
		return
	}
	n := int(min(next-first, maxUntold))
	r.Incarnation, r.Ended = next-1, true
	r.Restarts += n
	r.Attempt += n
	for range n {
		r.Counted = append(r.Counted, at)
	}
	c.log.Append(event.Event{
		Type: event.EventsDropped, Path: r.Path, Incarnation: r.Incarnation, Actor: "controller",
		Message: fmt.Sprintf("%s was restarted %d times before incarnation %d, and nobody is left who could tell "+
			"how it ended: the controller was killed while the store took no writes", r.Path, n, next),
	}.With(event.Dropped{Count: uint64(n), First: r.StartedAt, Last: at}), r.op())
}

// maxUntold is more restarts than any limit has to know of.
const maxUntold = 1000

// missed reports an incarnation that ended, and had a successor, without a word
// in the log, and counts the restart.
func (c *Controller) missed(r *record, b runtime.Ended) {
	if b.Incarnation > r.Incarnation {
		c.log.Append(event.Event{
			Time: b.ExitedAt, Type: event.AgentStarted, Path: r.Path, Incarnation: b.Incarnation, Actor: "supervisor",
			Message: fmt.Sprintf("%s started, incarnation %d; noticed later", r.Path, b.Incarnation),
		}.With(event.Late{Late: true}))
	}
	kind := event.AgentCrashed
	switch {
	case b.Exit.Clean():
		kind = event.AgentExited
	case b.Exit.Kind == supervisor.Lost:
		kind = event.AgentLost
	}
	r.Incarnation, r.Ended = b.Incarnation, true
	r.Restarts++
	r.Attempt++
	r.Counted = append(r.Counted, b.ExitedAt)
	end := endOf(b.Exit)
	end.Late = true
	r.LastExit = saveExit(b.Exit)
	c.log.Append(event.Event{
		Time: b.ExitedAt, Type: kind, Path: r.Path, Incarnation: b.Incarnation, Actor: "supervisor",
		Message: fmt.Sprintf("%s ended: %v; noticed later", r.Path, b.Exit),
	}.With(end), r.op())
}

// saved is builder.saved.
func (p *past) saved(path string) (*supervisor.Saved, *supervisor.SavedSelf) {
	var self *supervisor.SavedSelf
	if s := p.selves[path]; s != nil {
		self = &supervisor.SavedSelf{Counted: s.Counted, Paused: s.Paused, Probing: s.Probing}
		if p.forgetsOwn != nil && p.forgetsOwn(path) {
			self.Counted = nil
		}
	}
	r := p.records[path]
	if r == nil {
		return nil, self
	}
	s := r.saved()
	if p.forgets != nil && p.forgets(path) {
		forget(s)
	}
	if a, ok := p.adopt[path]; ok {
		s.State, s.Adopt, s.Incarnation, s.EndedAt = supervisor.Waiting, true, a.incarnation, a.endedAt
	}
	return s, self
}

// forget leaves of what is known what no limit has counted or decided. What
// has ended for good is done, and what people have stopped or have to resume
// waits for them: neither is a matter of memory.
func forget(s *supervisor.Saved) {
	s.Restarts, s.Attempt, s.Counted, s.NextAt = 0, 0, nil, time.Time{}
	switch s.State {
	case supervisor.Restarting, supervisor.Quarantined, supervisor.GivenUp:
		s.State, s.Reason = supervisor.Waiting, supervisor.NoReason
	}
}

// environOf is the environment that an agent declares, with what is in its files now.
func environOf(a *spec.Agent) (map[string]string, error) {
	if len(a.EnvFiles) == 0 {
		return a.Env, nil
	}
	env := make(map[string]string)
	for _, file := range a.EnvFiles {
		more, err := envfile.Read(file)
		if err != nil {
			return a.Env, fmt.Errorf("env_file: %w", err)
		}
		maps.Copy(env, more)
	}
	maps.Copy(env, a.Env)
	return env, nil
}

// launch is what an incarnation of an agent runs. Where its files of the environment
// cannot be read it is without them.
func (c *Controller) launch(
	a *spec.Agent, as identity, signal syscall.Signal, self supervisor.Self, token string,
) (runtime.Launch, error) {
	env, err := as.environ(a, proc.Self{Agent: self.Path, Incarnation: self.Incarnation, Token: token})
	l := runtime.Launch{
		Path: self.Path, Incarnation: self.Incarnation, SpecHash: a.DeclaredHash().Sum, Token: token,
		Argv: a.Command, Dir: a.Dir, Stdin: a.Stdin, Env: env,
		StopSignal: signal, Grace: a.Shutdown.Grace, Ready: a.Ready, Afresh: c.opts.Once && self.Incarnation == 1,
		Run:      a.Run,
		Terminal: a.Terminal, Limits: runtime.Limits(a.Limits), NoNewPrivileges: a.NoNewPrivileges, User: as.user,
		Notify: a.Notify, Watchdog: a.Watchdog,
	}
	l.Env = append(l.Env, pool.InstanceEnviron(a.Instance)...)
	if a.Aide != nil {
		argv, secrets := c.triggers.Launch(self.Path, a.Aide)
		l.Argv, l.Env = argv, append(l.Env, secrets...)
	}
	if a.Terminal || a.Runtime == spec.Tmux {
		l.Argv = proc.OutlastedShell(l.Argv, signal)
	}
	if a.Terminal && !slices.ContainsFunc(l.Env, func(kv string) bool { return strings.HasPrefix(kv, "TERM=") }) {
		l.Env = append(l.Env, "TERM=xterm-256color") // a daemon that a service manager has started has none
	}
	return l, err
}

// cutPath returns the first segment of path below a node, and whether it is below it.
func cutPath(path, above string) (first string, below bool) {
	rest, ok := strings.CutPrefix(path, above+"/")
	if !ok {
		return "", false
	}
	first, _, _ = strings.Cut(rest, "/")
	return first, true
}
