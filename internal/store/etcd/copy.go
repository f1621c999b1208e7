package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/etcd/rpc"
)

// Export implements store.Exporter. It reads all keys twice: what is below a sequence must not be more than it says.
func (s *Store) Export(ctx context.Context) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if err := s.conn.enter(ctx); err != nil {
			yield(store.Entry{}, err)
			return
		}
		defer s.conn.calls.Done()
		wanted := true
		err := s.export(ctx, func(e store.Entry) bool {
			if ctx.Err() != nil {
				return false
			}
			wanted = yield(e, nil)
			return wanted
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil && wanted {
			yield(store.Entry{}, s.conn.translate("copying", err))
		}
	}
}

func (s *Store) export(ctx context.Context, yield func(store.Entry) bool) error {
	sequences := map[string]uint64{}
	var damaged error
	all := rpc.Get{Key: s.conn.prefix + "n/", End: s.conn.prefix + "n0"}
	rev, err := s.conn.pages(ctx, all, func(kv *rpc.KeyValue) bool {
		prefix := strings.TrimPrefix(kv.Key, s.conn.prefix+"n/")
		sequences[prefix], damaged = number(kv)
		return damaged == nil
	})
	if err = errors.Join(err, damaged); err != nil {
		return err
	}
	all.Key, all.End = s.conn.bounds("")
	all.Revision, all.KeysOnly = rev, true
	if _, err := s.conn.pages(ctx, all, func(kv *rpc.KeyValue) bool {
		prefix, n, ok := store.CutSequenceKey(s.conn.record(kv.Key))
		if last := sequences[prefix]; ok && last > 0 {
			sequences[prefix] = max(last, n)
		}
		return true
	}); err != nil {
		return err
	}
	epoch, err := s.conn.epochAt(ctx, rev)
	if err != nil {
		return err
	}
	for _, prefix := range slices.Sorted(maps.Keys(sequences)) {
		if !yield(store.Entry{Kind: store.SequenceEntry, Key: prefix, Number: sequences[prefix]}) {
			return nil
		}
	}
	if epoch > 0 && !yield(store.Entry{Kind: store.EpochEntry, Number: epoch}) {
		return nil
	}
	all.KeysOnly = false
	_, err = s.conn.pages(ctx, all, func(kv *rpc.KeyValue) bool {
		return yield(store.Entry{Kind: store.RecordEntry, Key: s.conn.record(kv.Key), Value: kv.Value})
	})
	return err
}

// epochAt returns the last epoch as of a revision, or now.
func (c *conn) epochAt(ctx context.Context, rev int64) (epoch uint64, err error) {
	err = c.retry(ctx, func(ctx context.Context) error {
		resp, err := c.client.Get(ctx, rpc.Get{Key: c.prefix + "epoch", Revision: rev})
		if err == nil && len(resp.Keys) > 0 {
			epoch, err = number(&resp.Keys[0])
		}
		return err
	})
	return epoch, err
}

// An import takes many transactions. Until the last one, the key "importing" has the name of the import, and the key
// "importer" is there while its process works. A process that opens the store removes what an interrupted import has
// left.
const (
	importing   = "importing"
	importer    = "importer" // attached to a lease of etcd
	imported    = "imported" // has the name of the last import that was finished
	importerTTL = 30 * time.Second
)

var errImporting = fmt.Errorf("another process copies into it; if that was killed, try again after %v", importerTTL)

// Import implements store.Importer.
func (s *Store) Import(ctx context.Context, entries iter.Seq2[store.Entry, error]) error {
	if err := s.conn.enter(ctx); err != nil {
		return err
	}
	defer s.conn.calls.Done()
	i := &importation{conn: s.conn, name: rand.Text()}
	lease, err := i.begin(ctx)
	if err == nil {
		working, cancel := context.WithCancel(ctx)
		s.conn.calls.Go(func() { i.hold(working, lease) })
		err = i.run(working, store.CheckEntries(ctx, entries))
		cancel()
		if err != nil && !errors.Is(err, store.ErrUnknown) {
			// The caller may be gone.
			cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			err = errors.Join(err, i.remove(cleaning))
			cancel()
		}
		s.conn.revoke(lease)
	}
	return s.conn.translate("copying into", err)
}

// importation is one import.
type importation struct {
	conn  *conn
	name  string
	ops   []rpc.Op
	bytes int
}

// begin notes that an import begins, if the store is empty.
func (i *importation) begin(ctx context.Context) (lease rpc.LeaseID, err error) {
	for _, from := range []string{"k/", "n/"} {
		empty := true
		all := rpc.Get{Key: i.conn.prefix + from, End: i.conn.prefix + from[:1] + "0", KeysOnly: true}
		if _, err := i.conn.pages(ctx, all, func(*rpc.KeyValue) bool {
			empty = false
			return false
		}); err != nil {
			return 0, err
		}
		if !empty {
			return 0, store.ErrNotEmpty
		}
	}
	key := i.conn.prefix + importing
	err = i.conn.retry(ctx, func(ctx context.Context) error {
		id, err := i.conn.client.Grant(ctx, int64(importerTTL/time.Second))
		if err != nil {
			return err
		}
		lease = id
		alive := rpc.Put{Key: i.conn.prefix + importer, Value: []byte(i.name), Lease: lease}
		resp, err := i.conn.client.Txn(ctx, rpc.Txn{
			If:   []rpc.Compare{rpc.IsMissing(key), rpc.IsMissing(i.conn.prefix + "epoch")},
			Then: []rpc.Op{rpc.Put{Key: key, Value: []byte(i.name)}, alive},
			Else: []rpc.Op{rpc.Get{Key: key}},
		})
		switch {
		case err != nil:
			return err
		case resp.Succeeded:
			return nil
		}
		kvs := resp.Got[0].Keys
		switch {
		case len(kvs) == 0:
			return store.ErrNotEmpty // it has an epoch
		case string(kvs[0].Value) != i.name:
			return errImporting
		}
		// An attempt that got no answer has succeeded.
		_, err = i.conn.client.Txn(ctx, rpc.Txn{Then: []rpc.Op{alive}})
		return err
	})
	return lease, err
}

// hold keeps the lease of an import until ctx ends, unless etcd cannot be reached for too long.
func (i *importation) hold(ctx context.Context, id rpc.LeaseID) {
	tick := time.NewTicker(importerTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_ = i.conn.retry(ctx, func(ctx context.Context) error {
			_, err := i.conn.client.KeepAlive(ctx, id)
			return err
		})
	}
}

func (i *importation) run(ctx context.Context, entries iter.Seq2[store.Entry, error]) error {
	epoch := uint64(0)
	for e, err := range entries {
		if err != nil {
			return err
		}
		switch e.Kind {
		case store.EpochEntry:
			epoch = e.Number
		case store.SequenceEntry:
			err = i.put(ctx, i.conn.sequenceKey(e.Key), strconv.AppendUint(nil, e.Number, 10))
		case store.RecordEntry:
			err = i.put(ctx, i.conn.key(e.Key), e.Value)
		}
		if err != nil {
			return err
		}
	}
	if err := i.flush(ctx); err != nil {
		return err
	}
	return i.finish(ctx, epoch)
}

// put writes a key, together with others.
func (i *importation) put(ctx context.Context, key string, value []byte) error {
	if len(i.ops) == store.MaxOps || len(i.ops) > 0 && i.bytes+len(key)+len(value) > store.MaxApply {
		if err := i.flush(ctx); err != nil {
			return err
		}
	}
	i.ops, i.bytes = append(i.ops, rpc.Put{Key: key, Value: value}), i.bytes+len(key)+len(value)
	return nil
}

// isMine returns the conditions under which the import goes on: no other process has ended it.
func (i *importation) isMine() []rpc.Compare {
	return []rpc.Compare{rpc.HasValue(i.conn.prefix+importing, i.name), rpc.HasValue(i.conn.prefix+importer, i.name)}
}

var errGivenUp = errors.New("the copy was given up, since etcd could not be reached for too long; begin it again")

func (i *importation) flush(ctx context.Context) error {
	if len(i.ops) == 0 {
		return nil
	}
	err := i.conn.retry(ctx, func(ctx context.Context) error {
		resp, err := i.conn.client.Txn(ctx, rpc.Txn{If: i.isMine(), Then: i.ops})
		if err == nil && !resp.Succeeded {
			err = errGivenUp
		}
		return err
	})
	i.ops, i.bytes = nil, 0
	return err
}

// finish makes what was written the content of the store.
func (i *importation) finish(ctx context.Context, epoch uint64) error {
	c := i.conn
	then := []rpc.Op{rpc.Delete{Key: c.prefix + importing}, rpc.Delete{Key: c.prefix + importer},
		rpc.Put{Key: c.prefix + imported, Value: []byte(i.name)}}
	if epoch > 0 {
		then = append(then, rpc.Put{Key: c.prefix + "epoch", Value: strconv.AppendUint(nil, epoch, 10)})
	}
	tried := false
	err := c.retry(ctx, func(ctx context.Context) error {
		tried = true
		resp, err := c.client.Txn(ctx, rpc.Txn{If: i.isMine(), Then: then,
			Else: []rpc.Op{rpc.Get{Key: c.prefix + imported}}})
		switch {
		case err != nil:
			return err
		case resp.Succeeded:
			return nil
		}
		if kvs := resp.Got[0].Keys; len(kvs) > 0 && string(kvs[0].Value) == i.name {
			return nil // by an attempt that got no answer
		}
		return errGivenUp
	})
	if tried && err != nil && !errors.Is(err, errGivenUp) {
		return unknown(err)
	}
	return err
}

// remove removes what an import has written that was not finished, and that has this name.
func (i *importation) remove(ctx context.Context) error {
	return i.conn.retry(ctx, func(ctx context.Context) error {
		// The number of keys of one transaction is bounded, that of a range is not.
		_, err := i.conn.client.Txn(ctx, rpc.Txn{
			If: []rpc.Compare{rpc.HasValue(i.conn.prefix+importing, i.name)},
			Then: []rpc.Op{rpc.Delete{Key: i.conn.prefix + "k/", End: i.conn.prefix + "k0"},
				rpc.Delete{Key: i.conn.prefix + "n/", End: i.conn.prefix + "n0"},
				rpc.Delete{Key: i.conn.prefix + importer}, rpc.Delete{Key: i.conn.prefix + importing}},
		})
		return err
	})
}

// checkImport fails while another process imports, and removes what an import has left that was interrupted.
func (s *Store) checkImport(ctx context.Context) error {
	name, alive := "", false
	err := s.conn.retry(ctx, func(ctx context.Context) error {
		resp, err := s.conn.client.Txn(ctx, rpc.Txn{
			Then: []rpc.Op{rpc.Get{Key: s.conn.prefix + importing}, rpc.Get{Key: s.conn.prefix + importer}}})
		if err != nil {
			return err
		}
		if kvs := resp.Got[0].Keys; len(kvs) > 0 {
			name = string(kvs[0].Value)
		}
		alive = len(resp.Got[1].Keys) > 0
		return nil
	})
	switch {
	case err != nil || name == "":
		return err
	case alive:
		return errImporting
	}
	s.logger.Warn("a copy into the store was interrupted; what it has left is removed", "store", s.conn.where)
	return (&importation{conn: s.conn, name: name}).remove(ctx)
}
