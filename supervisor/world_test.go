package supervisor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a real supervisor in a synctest bubble, with children that do what
// the test says. What happens is written down from the events:
//
//	+a started, !a ended by itself, -a stopped as asked, ?a failed to start,
//	/a not needed now, #a abandoned, ~a came back after that
//
// and for supervisors the same with their path: +root, -root.
type world struct {
	t *testing.T
	*Supervisor
	mu     sync.Mutex
	actors map[string]*actor
	events []Event
	told   int // events that trace has returned
}

// inBubble runs a test in a bubble. It fails if a goroutine is left behind.
func inBubble(t *testing.T, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

// newWorld is for tests that need more than one.
func newWorld(t *testing.T) *world { return &world{t: t, actors: map[string]*actor{}} }

// begin starts a tree and returns when all is quiet. The tree is stopped when the test ends.
func (w *world) begin(spec Spec) error {
	w.t.Helper()
	if spec.OnEvent == nil {
		spec.OnEvent = w.saw
	}
	s, err := Start(context.Background(), spec)
	synctest.Wait()
	if err == nil {
		w.Supervisor = s
		w.t.Cleanup(w.end)
	}
	return err
}

// up is begin for specs that must start.
func (w *world) up(spec Spec) {
	w.t.Helper()
	if err := w.begin(spec); err != nil {
		w.t.Fatal(err)
	}
}

// end stops the tree, also where children are deaf, and waits for it.
func (w *world) end() {
	w.mu.Lock()
	for _, a := range w.actors {
		a.wake()
	}
	w.mu.Unlock()
	w.Stop()
	<-w.Done()
	time.Sleep(1000 * time.Hour) // for abandoned children to return; in a bubble only main keeps the clock going
}

func (w *world) saw(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func (w *world) seen() []Event {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events
}

func (w *world) trace() string {
	all := w.seen()
	var words []string
	for _, e := range all[w.told:] {
		var mark string
		switch e.(type) {
		case SupervisorStarted, ChildStarted:
			mark = "+"
		case SupervisorEnded, ChildStopped:
			mark = "-"
		case ChildExited:
			mark = "!"
		case ChildStartFailed:
			mark = "?"
		case ChildIgnored:
			mark = "/"
		case ChildAbandoned:
			mark = "#"
		case ChildReturned:
			mark = "~"
		default:
			continue
		}
		words = append(words, mark+strings.TrimPrefix(e.Header().Path(), "root/"))
	}
	w.told = len(all)
	return strings.Join(words, " ")
}

func (w *world) want(trace string) {
	w.t.Helper()
	if got := w.trace(); got != trace {
		w.t.Errorf("trace\n got %s\nwant %s", got, trace)
	}
}

// list is the children with their states.
func (w *world) list() string {
	synctest.Wait()
	all, err := w.Children()
	if err != nil {
		return err.Error()
	}
	var words []string
	for _, c := range all {
		words = append(words, c.ID+" "+c.State.String())
	}
	return strings.Join(words, ", ")
}

func (w *world) wantList(list string) {
	w.t.Helper()
	if got := w.list(); got != list {
		w.t.Errorf("children\n got %s\nwant %s", got, list)
	}
}

// counts as OTP gives them.
func (w *world) wantCounts(specs, active, supervisors, workers int) {
	w.t.Helper()
	synctest.Wait()
	got, err := w.Count()
	got.Abandoned = 0
	if want := (Counts{Specs: specs, Active: active, Supervisors: supervisors, Workers: workers}); got != want || err != nil {
		w.t.Errorf("counts %+v, want %+v, %v", got, want, err)
	}
}

// wantEnd waits until the supervisor has ended by itself.
func (w *world) wantEnd(kind ExitKind) {
	w.t.Helper()
	synctest.Wait()
	select {
	case <-w.Done():
		if w.Exit().Kind != kind {
			w.t.Errorf("ended with %v, want %v", w.Exit(), kind)
		}
	default:
		w.t.Errorf("has not ended; %s", w.list())
	}
}

func (w *world) wantAlive() {
	w.t.Helper()
	synctest.Wait()
	select {
	case <-w.Done():
		w.t.Errorf("ended with %v", w.Exit())
	default:
	}
}

func (w *world) call() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 1000*time.Hour)
	w.t.Cleanup(cancel)
	return ctx
}

// must is for calls that have to succeed.
func (w *world) must(_ ChildInfo, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
	synctest.Wait()
}

// actor is what the children with one ID have in common. Its methods make
// children for a ChildSpec.
type actor struct {
	w       *world
	id      string
	cmd     chan func(context.Context) error // for the living incarnation
	release chan struct{}                    // deaf incarnations wait for that

	mu       sync.Mutex
	alive    int // incarnations that run at the moment
	most     int // of alive, ever
	starts   int
	deaf     bool              // does not end when it is asked to
	slowStop time.Duration     // ends that long after it was asked to
	answer   error             // to being asked to stop, instead of the context's error
	onStart  func(n int) error // for start n, counted from 1; an error fails it
	stopped  []time.Time       // when it was asked to stop
	sleeps   []time.Duration   // before each start, since the end of the last
	endedAt  time.Time
}

// actor returns the actor with an ID.
func (w *world) actor(id string) *actor {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.actors[id]
	if a == nil {
		a = &actor{w: w, id: id, cmd: make(chan func(context.Context) error), release: make(chan struct{})}
		w.actors[id] = a
	}
	return a
}

// wake lets deaf incarnations end.
func (a *actor) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deaf, a.slowStop = false, 0
	select {
	case <-a.release:
	default:
		close(a.release)
	}
}

func (a *actor) enter() error {
	a.mu.Lock()
	a.starts++
	n, onStart := a.starts, a.onStart
	if !a.endedAt.IsZero() {
		a.sleeps = append(a.sleeps, time.Since(a.endedAt))
	}
	a.alive++
	a.most = max(a.most, a.alive)
	a.mu.Unlock()
	if onStart == nil {
		return nil
	}
	err := onStart(n)
	if err != nil {
		a.leave()
	}
	return err
}

func (a *actor) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.alive--
	a.endedAt = time.Now()
}

// run is a Run function. It is ready at once.
func (a *actor) run(ctx context.Context) error {
	if err := a.enter(); err != nil {
		return err
	}
	defer a.leave()
	Ready(ctx)
	select {
	case f := <-a.cmd:
		return f(ctx)
	case <-ctx.Done():
	}
	a.mu.Lock()
	a.stopped = append(a.stopped, time.Now())
	deaf, slow, answer := a.deaf, a.slowStop, a.answer
	a.mu.Unlock()
	if deaf {
		<-a.release
	}
	time.Sleep(slow)
	if answer != nil {
		return answer
	}
	return ctx.Err()
}

// do has the living incarnation of a child do something, which ends it with
// the result, and waits until the consequences are over.
func (w *world) do(id string, f func(context.Context) error) {
	w.t.Helper()
	synctest.Wait()
	select {
	case w.actor(id).cmd <- f:
	default:
		w.t.Fatalf("%s does not run", id)
	}
	synctest.Wait()
}

// exit ends children with an error.
func (w *world) exit(err error, ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.do(id, func(context.Context) error { return err })
	}
}

func (w *world) crash(ids ...string) { w.t.Helper(); w.exit(errBoom, ids...) }

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// kids gives the children of a spec to actors.
func (w *world) kids(words ...string) []ChildSpec {
	all := kids(words...)
	for i := range all {
		all[i].Run = w.actor(all[i].ID).run
	}
	return all
}

// one, all, rest: supervisors with such children, and OTP's usual limit in its suite.
func (w *world) tree(s Strategy, words ...string) Spec {
	return Spec{Strategy: s, Limit: Escalating(2, time.Hour), Children: w.kids(words...)}
}

// fake is a Process that does what the test says.
type fake struct {
	done           chan struct{}
	once           sync.Once
	exit           Exit
	stops, kills   int
	onStop, onKill func(*fake)
	mu             sync.Mutex
}

func newFake() *fake {
	return &fake{
		done:   make(chan struct{}),
		onStop: func(p *fake) { p.end(Exit{Kind: ShutDown}) },
		onKill: func(p *fake) { p.end(Exit{Kind: Killed, Err: ErrKilled}) },
	}
}

func (p *fake) end(e Exit) { p.once.Do(func() { p.exit = e; close(p.done) }) }

func (p *fake) Wait() Exit {
	<-p.done
	return p.exit
}

func (p *fake) Stop() {
	p.mu.Lock()
	p.stops++
	p.mu.Unlock()
	if p.onStop != nil {
		p.onStop(p)
	}
}

func (p *fake) Kill() {
	p.mu.Lock()
	p.kills++
	p.mu.Unlock()
	if p.onKill != nil {
		p.onKill(p)
	}
}

// signals says how often it was asked and killed.
func (p *fake) signals() string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%d stops, %d kills", p.stops, p.kills)
}
