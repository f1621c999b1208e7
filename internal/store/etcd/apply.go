package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

// needOps is the most comparisons or operations that one Apply has as a transaction: those of the records, of their
// sequences, of the fence and of the writer. etcd takes 128 by default.
const needOps = store.MaxOps + store.MaxLogs + 2

// Apply implements store.Store. It returns store.ErrUnknown only if no member of etcd answers for 15 s after the write
// was sent, or for 2 s after the context has ended.
func (s *Store) Apply(ctx context.Context, fence store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	if err := store.CheckApply(store.MaxOps, conds, ops); err != nil {
		return 0, err
	}
	if err := s.conn.enter(ctx); err != nil {
		return 0, err
	}
	defer s.conn.calls.Done()
	if fence != (store.Fence{}) && (fence.Epoch == 0 || s.leases.isLost(fence)) {
		return 0, store.ErrFenced
	}
	a := &apply{s: s, fence: fence, conds: conds, ops: ops}
	if len(ops) == 0 {
		rev, err := a.check(ctx)
		return rev, s.conn.translate("reading from", err)
	}
	defer a.unlock()
	if err := a.lock(ctx); err != nil {
		return 0, err
	}
	begun := time.Now()
	rev, err := a.run(ctx)
	if err == nil {
		s.meter.Count(ops)
	}
	if f := s.committed.Load(); f != nil && err == nil && a.changes {
		(*f)(time.Since(begun))
	}
	return rev, s.conn.translate("writing to", err)
}

// apply is one call of Apply.
type apply struct {
	s       *Store
	fence   store.Fence
	conds   []store.Cond
	ops     []store.Op
	logs    []string // the prefixes that it appends to
	locked  bool     // the sequences
	changes bool     // it has ops that always change something
	noted   sent     // some attempt
}

// lock reserves the sequences that it uses, so that calls of one process do not fail because of each other.
func (a *apply) lock(ctx context.Context) error {
	seen := map[string]bool{}
	for _, op := range a.ops {
		a.changes = a.changes || op.Kind != store.Delete
		if op.Kind == store.Append && !seen[op.Key] {
			seen[op.Key] = true
			a.logs = append(a.logs, op.Key)
		}
	}
	if len(a.logs) == 0 {
		return nil
	}
	select {
	case a.s.sequences.busy <- struct{}{}:
		a.locked = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *apply) unlock() {
	if a.locked {
		<-a.s.sequences.busy
	}
}

// run tries until the transaction was done or cannot be done.
func (a *apply) run(ctx context.Context) (store.Rev, error) {
	begun := time.Now()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		rev, again, err := a.try(ctx)
		if !again {
			return rev, err
		}
		if a.noted.isOver(begun, pause) {
			return 0, unavailable(err)
		}
		if errors.Is(err, errMoved) && pause < maxPause/4 {
			continue // it is known now what has moved
		}
		if err := a.s.conn.pause(ctx, pause); err != nil {
			return 0, err
		}
	}
}

// errMoved means that a sequence or a writer was not as it was thought to be.
var errMoved = errors.New("others write all the time")

// try makes one transaction. again means that nothing was done, and that another attempt may succeed.
func (a *apply) try(ctx context.Context) (rev store.Rev, again bool, err error) {
	w, err := a.s.writers.take(ctx)
	if err != nil {
		return 0, false, err
	}
	defer func() { a.s.writers.put(w) }()
	var noted sent
	var resp rpc.TxnAnswer
	// Once it is sent, the end of the context does not say what became of it.
	detached := rpc.NoteSent(context.WithoutCancel(ctx), &noted.Bool)
	err = a.s.conn.attempt(detached, func(ctx context.Context) error {
		var err error
		resp, err = a.s.conn.client.Txn(ctx, a.txn(w))
		return err
	})
	if noted.Load() {
		a.noted.Store(true)
	}
	switch {
	case err == nil:
	case !noted.Load() && passing(err):
		return 0, ctx.Err() == nil, errors.Join(ctx.Err(), err)
	case errors.Is(err, store.ErrClosed), passing(err):
		for _, log := range a.logs {
			delete(a.s.sequences.known, log)
		}
		rev, done, settleErr := a.s.writers.settle(ctx, w)
		if !done {
			w = nil
		} else if a.changes {
			w.last++
		}
		switch {
		case settleErr != nil:
			return 0, false, unknown(fmt.Errorf("%w; asking what became of it: %w", err, settleErr))
		case done && a.changes:
			return rev, false, nil
		}
		return 0, true, err
	default:
		return 0, false, err // refused
	}
	if !resp.Succeeded {
		lost, err := a.explain(resp.Got, w)
		if lost {
			w = nil
		}
		return 0, errors.Is(err, errMoved), err
	}
	if a.changes {
		w.last++
	}
	a.advance(resp.Revision)
	return store.Rev(resp.Revision), false, nil
}

// maxChecks is the number of calls of Apply without ops that are under way at the same time. They do not wait for
// those with ops: whether a lease has ended must be known also while much is written.
const maxChecks = 16

// check is an Apply without ops. It changes nothing, so it is repeated until a member answers, and needs no writer.
func (a *apply) check(ctx context.Context) (rev store.Rev, err error) {
	select {
	case a.s.checks <- struct{}{}:
		defer func() { <-a.s.checks }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	err = a.s.conn.retry(ctx, func(ctx context.Context) error {
		t := a.txn(nil)
		// Without a key that is read, a member that is behind answers by itself.
		t.Then = append(t.Then, rpc.Get{Key: a.s.conn.prefix + "format", KeysOnly: true})
		resp, err := a.s.conn.client.Txn(ctx, t)
		if err == nil && !resp.Succeeded {
			_, err = a.explain(resp.Got, nil)
		}
		rev = store.Rev(resp.Revision)
		return err
	})
	return rev, err
}

// txn returns the transaction. If its conditions do not hold, it reads what they are about, in the same order. Without
// ops the writer may be nil.
func (a *apply) txn(w *writer) (t rpc.Txn) {
	if a.fence != (store.Fence{}) {
		key := a.s.conn.leaseKey(a.fence.Lease)
		t.If = append(t.If, rpc.HasValue(key, strconv.FormatUint(a.fence.Epoch, 10)))
		t.Else = append(t.Else, rpc.Get{Key: key})
	}
	for _, c := range a.conds {
		key := a.s.conn.key(c.Key)
		t.If = append(t.If, rpc.HasRevision(key, int64(c.Rev)))
		t.Else = append(t.Else, rpc.Get{Key: key, KeysOnly: true})
	}
	last := make(map[string]uint64, len(a.logs))
	for _, log := range a.logs {
		key, known := a.s.conn.sequenceKey(log), a.s.sequences.known[log]
		last[log] = known.n
		t.If = append(t.If, rpc.HasRevision(key, known.rev))
		t.Else = append(t.Else, rpc.Get{Key: key})
	}
	if w != nil {
		t.If = append(t.If, rpc.HasValue(w.key, w.number(w.last)))
		t.Else = append(t.Else, rpc.Get{Key: w.key})
	}
	for _, op := range a.ops {
		switch op.Kind {
		case store.Put:
			t.Then = append(t.Then, rpc.Put{Key: a.s.conn.key(op.Key), Value: op.Value})
		case store.Delete:
			t.Then = append(t.Then, rpc.Delete{Key: a.s.conn.key(op.Key)})
		case store.Append:
			last[op.Key]++
			key := a.s.conn.key(store.SequenceKey(op.Key, last[op.Key]))
			t.Then = append(t.Then, rpc.Put{Key: key, Value: op.Value})
		}
	}
	for _, log := range a.logs {
		t.Then = append(t.Then, rpc.Put{Key: a.s.conn.sequenceKey(log), Value: strconv.AppendUint(nil, last[log], 10)})
	}
	if a.changes {
		// Deletes that change nothing must not move the revision on. A repetition of deletes does no harm.
		t.Then = append(t.Then, rpc.Put{Key: w.key, Value: []byte(w.number(w.last + 1)), KeepLease: true})
	}
	return t
}

// explain returns why a transaction was not done, given what it has read, and whether its writer is gone. It notes what
// the sequences are.
func (a *apply) explain(got []rpc.GetAnswer, w *writer) (lost bool, err error) {
	next := func() []rpc.KeyValue {
		keys := got[0].Keys
		got = got[1:]
		return keys
	}
	if a.fence != (store.Fence{}) {
		if kvs := next(); len(kvs) == 0 || string(kvs[0].Value) != strconv.FormatUint(a.fence.Epoch, 10) {
			return false, store.ErrFenced
		}
	}
	for _, c := range a.conds {
		have := store.Rev(0)
		if kvs := next(); len(kvs) > 0 {
			have = store.Rev(kvs[0].Revision)
		}
		if have != c.Rev {
			return false, &store.ConflictError{Key: c.Key, Want: c.Rev, Have: have}
		}
	}
	for _, log := range a.logs {
		known, err := counterOf(next())
		if err != nil {
			return false, err
		}
		a.s.sequences.known[log] = known
	}
	if w == nil { // all conditions hold again
		return false, errMissing
	}
	kvs := next()
	return len(kvs) == 0 || string(kvs[0].Value) != w.number(w.last), errMoved
}

// advance notes the sequences after a transaction that was done.
func (a *apply) advance(rev int64) {
	for _, op := range a.ops {
		if op.Kind == store.Append {
			a.s.sequences.known[op.Key] = counter{n: a.s.sequences.known[op.Key].n + 1, rev: rev}
		}
	}
}

// sequences are the last numbers of appended records as this process knows them.
type sequences struct {
	busy  chan struct{} // has a token while they are used
	known map[string]counter
}

// counter is a key that has a number.
type counter struct {
	n   uint64
	rev int64 // of the key; 0 if there is none
}

// counterOf returns the counter that was read.
func counterOf(kvs []rpc.KeyValue) (c counter, err error) {
	if len(kvs) > 0 {
		c.rev = kvs[0].Revision
		c.n, err = number(&kvs[0])
	}
	return c, err
}

// number returns the number that a key has.
func number(kv *rpc.KeyValue) (uint64, error) {
	n, err := strconv.ParseUint(string(kv.Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is damaged: %.40q is no number", kv.Key, kv.Value)
	}
	return n, nil
}
