package etcd

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

const (
	// maxWriters is the number of calls of Apply that are under way at the same time.
	maxWriters = 16
	// writerTTL is the time after which etcd removes the record of a writer. It is used for half of that time.
	writerTTL = time.Hour
	// resignTime is how long Apply finds out what became of a write after its context has ended.
	resignTime = 2 * time.Second
)

// writers let Apply find out what became of a write that got no answer: it was done, it was not done, or it is
// still on its way in the network or in the log of etcd, and is done later.
//
// Each write belongs to a writer, which has a record with the number of its last write. The write sets that number, on
// the condition that the record has the one before. So the record tells whether it was done. If it was not, the record
// is deleted in the same step, and the write can no longer be done. A writer has one write under way at a time.
type writers struct {
	conn  *conn
	slots chan struct{} // has a token for each writer that is in use
	mu    sync.Mutex
	idle  []*writer
}

// writer is one record below w.
type writer struct {
	key   string
	last  uint64 // number of its last write
	lease rpc.LeaseID
	until time.Time // when it is no longer used
}

func (w *writer) number(n uint64) string { return strconv.FormatUint(n, 10) }

// take returns a writer that is not in use. The caller gives it back with put, also if it is nil.
func (ws *writers) take(ctx context.Context) (*writer, error) {
	select {
	case ws.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ws.mu.Lock()
	for len(ws.idle) > 0 {
		w := ws.idle[len(ws.idle)-1]
		ws.idle = ws.idle[:len(ws.idle)-1]
		if time.Now().Before(w.until) {
			ws.mu.Unlock()
			return w, nil
		}
	}
	ws.mu.Unlock()
	w, err := ws.create(ctx)
	if err != nil {
		<-ws.slots
		return nil, err
	}
	return w, nil
}

// put gives a writer back. nil means that it is not to be used any more.
func (ws *writers) put(w *writer) {
	if w != nil {
		ws.mu.Lock()
		ws.idle = append(ws.idle, w)
		ws.mu.Unlock()
	}
	<-ws.slots
}

// create makes the record of a writer.
func (ws *writers) create(ctx context.Context) (*writer, error) {
	w := &writer{until: time.Now().Add(writerTTL / 2)}
	err := ws.conn.retry(ctx, func(ctx context.Context) error {
		lease, err := ws.conn.client.Grant(ctx, int64(writerTTL/time.Second))
		if err != nil {
			return err
		}
		w.key, w.lease = ws.conn.prefix+"w/"+rand.Text(), lease // another one each time
		_, err = ws.conn.client.Txn(ctx, rpc.Txn{
			Then: []rpc.Op{rpc.Put{Key: w.key, Value: []byte(w.number(0)), Lease: lease}}})
		return err
	})
	return w, err
}

// settle finds out whether the write of a writer was done that got no answer. If it was not, it never will be, and the
// writer is not to be used any more. The error is store.ErrUnknown if that cannot be found out.
func (ws *writers) settle(ctx context.Context, w *writer) (rev store.Rev, done bool, err error) {
	// The caller may be gone, but the answer counts.
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(resignTime):
			cancel()
		case <-patient.Done():
		}
	})()
	// It has the same result when it is repeated: the record is gone then, or has the number.
	err = ws.conn.retry(patient, func(ctx context.Context) error {
		resp, err := ws.conn.client.Txn(ctx, rpc.Txn{
			If:   []rpc.Compare{rpc.HasValue(w.key, w.number(w.last+1))},
			Then: []rpc.Op{rpc.Get{Key: w.key}},
			Else: []rpc.Op{rpc.Delete{Key: w.key}},
		})
		if err != nil {
			return err
		}
		if done = resp.Succeeded; done {
			if len(resp.Got[0].Keys) == 0 {
				return errMissing
			}
			rev = store.Rev(resp.Got[0].Keys[0].Revision)
		}
		return nil
	})
	return rev, done, err
}

// end removes the records of all writers.
func (ws *writers) end(ctx context.Context) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.idle {
		if err := ws.conn.client.Revoke(ctx, w.lease); err != nil && ctx.Err() != nil {
			return // etcd does that, later
		}
	}
	ws.idle = nil
}
