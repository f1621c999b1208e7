package task

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"time"
)

// Record is a task as it is stored. Records are never changed, only replaced.
type Record struct {
	Task
	Number      uint64   `json:"number"`            // rises from task to task
	Key         string   `json:"key,omitempty"`     // of the request that created it
	CommentKeys []string `json:"said,omitempty"`    // keys of the last comments
	Imported    bool     `json:"brought,omitempty"` // it has an ImportedPart
	// OldestAttempt is the number of the oldest attempt that is stored; 0 if none is.
	OldestAttempt int `json:"oldest_attempt,omitempty"`
	// LastEvent is the number of the event of the log after which those count that its condition waits for.
	LastEvent uint64 `json:"last_event,omitempty"`
}

// compare orders tasks by priority, then age: the order in which they are claimed and listed.
func (r *Record) compare(other *Record) int {
	return cmp.Or(
		cmp.Compare(r.Priority, other.Priority),
		r.CreatedAt.Compare(other.CreatedAt),
		cmp.Compare(r.Number, other.Number),
	)
}

// entry is a task in an Index.
type entry struct {
	*Record
	heap *taskHeap // the heap it is in; nil if it is neither ready nor deferred to a time
	pos  int       // position in the heap
}

// Index holds all tasks and what is derived from them.
type Index struct {
	entries    map[string]*entry
	keys       map[string]string          // ids by the keys of the requests that made them
	children   map[string]map[string]bool // by parent
	openCount  map[string]int             // children that are not closed, by parent
	waiters    map[string]map[string]bool // dependents, by dependency
	claimed    map[string]map[string]bool // by claimant
	counts     map[countKey]int
	unfinished sequence // tasks that are not closed
	finished   sequence // closed tasks
	ready      map[Place]*taskHeap
	deferred   *taskHeap                  // tasks that wait for a time
	asked      map[string]bool            // tasks that people are asked about
	blocked    map[string]bool            // tasks that wait for a condition
	doomed     map[string]bool            // tasks that are to be cancelled with one that they depend on
	paused     map[string]bool            // pools of which no task can be claimed
	held       map[string]map[string]bool // tasks that would be ready, by paused pool
	now        time.Time
	onReady    func(Place) // called when a task becomes ready at a place; may be nil
}

// Place is where ready tasks line up: those of one assignee, or of one pool.
type Place struct{ assignee, pool string }

// countKey counts tasks of a stored status: those of one pool, or all.
type countKey struct {
	status Status
	pool   string
	all    bool
}

// NewIndex returns an Index without tasks, at the current time.
func NewIndex() *Index {
	return &Index{
		now:     time.Now(),
		entries: make(map[string]*entry), keys: make(map[string]string), children: make(map[string]map[string]bool),
		openCount: make(map[string]int),
		waiters:   make(map[string]map[string]bool), claimed: make(map[string]map[string]bool),
		ready:  make(map[Place]*taskHeap),
		counts: make(map[countKey]int),
		paused: make(map[string]bool), held: make(map[string]map[string]bool),
		asked: make(map[string]bool), blocked: make(map[string]bool), doomed: make(map[string]bool),
		deferred: &taskHeap{less: func(a, b *entry) bool { return a.NotBefore.Before(b.NotBefore) }},
	}
}

// Add adds a task or replaces it.
func (x *Index) Add(r *Record) { x.set(r.ID, r) }

// get returns the record of a task, nil if there is none.
func (x *Index) get(id string) *Record {
	if e := x.entries[id]; e != nil {
		return e.Record
	}
	return nil
}

// checkCapacity returns an ErrFull if no more tasks can be added.
func (x *Index) checkCapacity() error {
	if n := len(x.entries); n >= MaxTasks {
		return fmt.Errorf("%w: there are %d, the maximum", ErrFull, n)
	}
	return nil
}

// set replaces a task, or removes it if r is nil. It returns the record before.
func (x *Index) set(id string, r *Record) (before *Record) {
	e := x.entries[id]
	if e != nil {
		before = e.Record
		x.unlink(before)
		x.dequeue(e)
		x.sequenceOf(before).remove(before)
	}
	switch {
	case r == nil:
		delete(x.entries, id)
	case e == nil:
		e = &entry{Record: r}
		x.entries[id] = e
	default:
		e.Record = r
	}
	if r != nil {
		x.link(r)
		x.enqueue(e)
		x.sequenceOf(r).add(e)
	}
	if before != nil && before.Parent != "" {
		x.requeue(before.Parent)
	}
	if r != nil && r.Parent != "" && (before == nil || before.Parent != r.Parent) {
		x.requeue(r.Parent)
	}
	if ended(before) != ended(r) {
		for waiter := range x.waiters[id] {
			x.requeue(waiter)
		}
	}
	if scopeChanged(before, r) {
		x.requeueBelow(id, 0)
	}
	return before
}

// ended says, for the tasks that depend on one, whether and how that has ended. A task that does not
// exist was completed.
func ended(r *Record) Outcome {
	switch {
	case r == nil || r.completed():
		return Completed
	case r.closed():
		return Cancelled
	}
	return ""
}

// sequenceOf returns the sequence that lists a task.
func (x *Index) sequenceOf(r *Record) *sequence {
	if r.closed() {
		return &x.finished
	}
	return &x.unfinished
}

// count adds n to the counts of a status and pool.
func (x *Index) count(status Status, pool string, n int) {
	for _, at := range []countKey{{status: status, pool: pool}, {status: status, all: true}} {
		if x.counts[at] += n; x.counts[at] == 0 {
			delete(x.counts, at)
		}
	}
}

func (x *Index) link(r *Record) {
	x.count(r.Status, r.Pool, 1)
	if r.Key != "" {
		x.keys[r.Key] = r.ID
	}
	if r.Parent != "" {
		add(x.children, r.Parent, r.ID)
		if !r.closed() {
			x.openCount[r.Parent]++
		}
	}
	for _, id := range r.DependsOn {
		add(x.waiters, id, r.ID)
	}
	if r.Claim != nil {
		add(x.claimed, r.Claim.By, r.ID)
	}
	if r.Question != nil {
		x.asked[r.ID] = true
	}
	if r.Condition != nil && r.Status == Blocked {
		x.blocked[r.ID] = true
	}
}

func (x *Index) unlink(r *Record) {
	x.count(r.Status, r.Pool, -1)
	if r.Key != "" {
		delete(x.keys, r.Key)
	}
	if r.Parent != "" {
		remove(x.children, r.Parent, r.ID)
		if !r.closed() {
			if x.openCount[r.Parent]--; x.openCount[r.Parent] == 0 {
				delete(x.openCount, r.Parent)
			}
		}
	}
	for _, id := range r.DependsOn {
		remove(x.waiters, id, r.ID)
	}
	if r.Claim != nil {
		remove(x.claimed, r.Claim.By, r.ID)
	}
	delete(x.asked, r.ID)
	delete(x.blocked, r.ID)
}

func add(sets map[string]map[string]bool, key, id string) {
	if sets[key] == nil {
		sets[key] = make(map[string]bool)
	}
	sets[key][id] = true
}

func remove(sets map[string]map[string]bool, key, id string) {
	if delete(sets[key], id); len(sets[key]) == 0 {
		delete(sets, key)
	}
}

// requeue moves a task to the right heap after something it waits for has changed.
func (x *Index) requeue(id string) {
	if e := x.entries[id]; e != nil {
		x.dequeue(e)
		x.enqueue(e)
	}
}

// ready reports whether a task can be claimed.
func (e *entry) ready(x *Index) bool { return e.heap != nil && e.heap != x.deferred }

func (x *Index) dequeue(e *entry) {
	if e.ready(x) {
		x.count(statusReady, e.Pool, -1)
	}
	if e.heap != nil {
		heap.Remove(e.heap, e.pos)
	}
	delete(x.doomed, e.ID)
	if e.Pool != "" {
		remove(x.held, e.Pool, e.ID)
	}
}

// enqueue adds a task to the heap of its place if it is ready, or to the deferred or doomed ones.
func (x *Index) enqueue(e *entry) {
	if e.IfDependencyFails == CancelWithIt && !e.closed() && e.Claim == nil && x.openCount[e.ID] == 0 &&
		slices.ContainsFunc(e.DependsOn, x.failed) {
		x.doomed[e.ID] = true
	}
	if e.Status != Open && (e.Status != Deferred || e.NotBefore.IsZero()) || x.waits(e.Record) {
		return
	}
	if x.now.Before(e.NotBefore) {
		heap.Push(x.deferred, e)
		return
	}
	at := placeOf(&e.Task)
	if at.assignee == "" && x.paused[at.pool] {
		add(x.held, at.pool, e.ID)
		return
	}
	if x.ready[at] == nil {
		x.ready[at] = &taskHeap{less: func(a, b *entry) bool { return a.compare(b.Record) < 0 }}
	}
	heap.Push(x.ready[at], e)
	x.count(statusReady, e.Pool, 1)
	if x.onReady != nil {
		x.onReady(at)
	}
}

func placeOf(t *Task) Place {
	if t.Assignee != "" {
		return Place{assignee: t.Assignee}
	}
	return Place{pool: t.Pool}
}

// isHeld reports whether a task cannot be claimed only because its pool is paused.
func (x *Index) isHeld(r *Record) bool { return x.held[r.Pool][r.ID] }

// advance sets the time. Deferred tasks whose time has come become ready.
func (x *Index) advance(now time.Time) {
	x.now = now
	for len(x.deferred.entries) > 0 && !now.Before(x.deferred.entries[0].NotBefore) {
		e := x.deferred.entries[0]
		x.dequeue(e)
		x.enqueue(e)
	}
}

// first returns the first ready task of a place, nil if there is none.
func (x *Index) first(at Place) *Record {
	if l := x.ready[at]; l != nil && len(l.entries) > 0 {
		return l.entries[0].Record
	}
	return nil
}

// view returns a task as it is shown, with the derived fields.
func (x *Index) view(r *Record) Task {
	t := r.Task
	if e := x.entries[r.ID]; e != nil && e.Record == r {
		t.Ready = e.ready(x)
	}
	t.Status = r.effective(x.now)
	if !t.closed() {
		t.WaitsFor, t.Paused = x.waitsFor(r), x.isHeld(r)
		for _, id := range t.WaitsFor {
			if x.failed(id) {
				t.Stuck = append(t.Stuck, id)
			}
		}
	}
	if t.Claim != nil {
		claim := *t.Claim
		claim.Life, claim.Key = "", ""
		t.Claim = &claim
	}
	return t
}
