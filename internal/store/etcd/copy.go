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
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coppice-dev/coppice/internal/store"
)

// Export implements store.Exporter. It reads all keys twice: what is below a sequence must not be more than it says.
func (s *Store) Export(ctx context.Context) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if err := s.enter(ctx); err != nil {
			yield(store.Entry{}, err)
			return
		}
		defer s.calls.Done()
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
			yield(store.Entry{}, s.translate("copying", err))
		}
	}
}

func (s *Store) export(ctx context.Context, yield func(store.Entry) bool) error {
	sequences := map[string]uint64{}
	var damaged error
	from, to := s.prefix+"n/", s.prefix+"n0"
	rev, err := s.pages(ctx, from, to, 0, func(kv *mvccpb.KeyValue) bool {
		prefix := string(kv.Key[len(from):])
		sequences[prefix], damaged = number(kv)
		return damaged == nil
	})
	if err = errors.Join(err, damaged); err != nil {
		return err
	}
	from, to = s.bounds("")
	if _, err := s.pages(ctx, from, to, rev, func(kv *mvccpb.KeyValue) bool {
		prefix, n, ok := store.CutSequenceKey(s.record(kv.Key))
		if last := sequences[prefix]; ok && last > 0 {
			sequences[prefix] = max(last, n)
		}
		return true
	}, clientv3.WithKeysOnly()); err != nil {
		return err
	}
	epoch, err := s.epochAt(ctx, rev)
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
	_, err = s.pages(ctx, from, to, rev, func(kv *mvccpb.KeyValue) bool {
		return yield(store.Entry{Kind: store.RecordEntry, Key: s.record(kv.Key), Value: kv.Value})
	})
	return err
}

// epochAt returns the last epoch as of a revision, or now.
func (s *Store) epochAt(ctx context.Context, rev int64) (epoch uint64, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		resp, err := s.client.Get(ctx, s.prefix+"epoch", clientv3.WithRev(rev))
		if err == nil && len(resp.Kvs) > 0 {
			epoch, err = number(resp.Kvs[0])
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
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	name := rand.Text()
	lease, err := s.beginImport(ctx, name)
	if err == nil {
		i := &importation{s: s, name: name}
		working, cancel := context.WithCancel(ctx)
		if err = s.holdLease(working, lease); err == nil {
			err = i.run(working, store.CheckEntries(ctx, entries))
		}
		cancel()
		if err != nil && !errors.Is(err, store.ErrUnknown) {
			// The caller may be gone.
			cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			err = errors.Join(err, s.removeImport(cleaning, name))
			cancel()
		}
		s.revoke(lease)
	}
	return s.translate("copying into", err)
}

// beginImport notes that an import begins, if the store is empty.
func (s *Store) beginImport(ctx context.Context, name string) (lease clientv3.LeaseID, err error) {
	for _, from := range []string{"k/", "n/"} {
		empty := true
		if _, err := s.pages(ctx, s.prefix+from, s.prefix+from[:1]+"0", 0, func(*mvccpb.KeyValue) bool {
			empty = false
			return false
		}, clientv3.WithKeysOnly()); err != nil {
			return 0, err
		}
		if !empty {
			return 0, store.ErrNotEmpty
		}
	}
	key := s.prefix + importing
	err = s.retry(ctx, func(ctx context.Context) error {
		grant, err := s.client.Grant(ctx, int64(importerTTL/time.Second))
		if err != nil {
			return err
		}
		lease = grant.ID
		resp, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0),
				clientv3.Compare(clientv3.CreateRevision(s.prefix+"epoch"), "=", 0)).
			Then(clientv3.OpPut(key, name), clientv3.OpPut(s.prefix+importer, name, clientv3.WithLease(lease))).
			Else(clientv3.OpGet(key)).Commit()
		switch {
		case err != nil:
			return err
		case resp.Succeeded:
			return nil
		}
		kvs := resp.Responses[0].GetResponseRange().Kvs
		switch {
		case len(kvs) == 0:
			return store.ErrNotEmpty // it has an epoch
		case string(kvs[0].Value) != name:
			return errImporting
		}
		// An attempt that got no answer has succeeded.
		_, err = s.client.Put(ctx, s.prefix+importer, name, clientv3.WithLease(lease))
		return err
	})
	return lease, err
}

// holdLease keeps a lease of etcd until ctx ends.
func (s *Store) holdLease(ctx context.Context, id clientv3.LeaseID) error {
	answers, err := s.client.KeepAlive(ctx, id)
	if err == nil {
		s.calls.Go(func() {
			for range answers { // ends with ctx
			}
		})
	}
	return err
}

// importation is one import.
type importation struct {
	s     *Store
	name  string
	ops   []clientv3.Op
	bytes int
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
			err = i.put(ctx, i.s.sequenceKey(e.Key), strconv.FormatUint(e.Number, 10))
		case store.RecordEntry:
			err = i.put(ctx, i.s.key(e.Key), string(e.Value))
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
func (i *importation) put(ctx context.Context, key, value string) error {
	if len(i.ops) == store.MaxOps || len(i.ops) > 0 && i.bytes+len(key)+len(value) > store.MaxApply {
		if err := i.flush(ctx); err != nil {
			return err
		}
	}
	i.ops, i.bytes = append(i.ops, clientv3.OpPut(key, value)), i.bytes+len(key)+len(value)
	return nil
}

// isMine returns the conditions under which the import goes on: no other process has ended it.
func (i *importation) isMine() []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(i.s.prefix+importing), "=", i.name),
		clientv3.Compare(clientv3.Value(i.s.prefix+importer), "=", i.name),
	}
}

var errGivenUp = errors.New("the copy was given up, since etcd could not be reached for too long; begin it again")

func (i *importation) flush(ctx context.Context) error {
	if len(i.ops) == 0 {
		return nil
	}
	err := i.s.retry(ctx, func(ctx context.Context) error {
		resp, err := i.s.client.Txn(ctx).If(i.isMine()...).Then(i.ops...).Commit()
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
	s := i.s
	then := []clientv3.Op{clientv3.OpDelete(s.prefix + importing), clientv3.OpDelete(s.prefix + importer),
		clientv3.OpPut(s.prefix+imported, i.name)}
	if epoch > 0 {
		then = append(then, clientv3.OpPut(s.prefix+"epoch", strconv.FormatUint(epoch, 10)))
	}
	tried := false
	err := s.retry(ctx, func(ctx context.Context) error {
		tried = true
		resp, err := s.client.Txn(ctx).If(i.isMine()...).Then(then...).
			Else(clientv3.OpGet(s.prefix + imported)).Commit()
		switch {
		case err != nil:
			return err
		case resp.Succeeded:
			return nil
		}
		if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 && string(kvs[0].Value) == i.name {
			return nil // by an attempt that got no answer
		}
		return errGivenUp
	})
	if tried && err != nil && !errors.Is(err, errGivenUp) {
		return unknown(err)
	}
	return err
}

// removeImport removes what an import has written that was not finished, and that has this name.
func (s *Store) removeImport(ctx context.Context, name string) error {
	return s.retry(ctx, func(ctx context.Context) error {
		// The number of keys of one transaction is bounded, that of a range is not.
		_, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.Value(s.prefix+importing), "=", name)).
			Then(clientv3.OpDelete(s.prefix+"k/", clientv3.WithRange(s.prefix+"k0")),
				clientv3.OpDelete(s.prefix+"n/", clientv3.WithRange(s.prefix+"n0")),
				clientv3.OpDelete(s.prefix+importer), clientv3.OpDelete(s.prefix+importing)).Commit()
		return err
	})
}

// checkImport fails while another process imports, and removes what an import has left that was interrupted.
func (s *Store) checkImport(ctx context.Context) error {
	name, alive := "", false
	err := s.retry(ctx, func(ctx context.Context) error {
		resp, err := s.client.Txn(ctx).
			Then(clientv3.OpGet(s.prefix+importing), clientv3.OpGet(s.prefix+importer)).Commit()
		if err != nil {
			return err
		}
		if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
			name = string(kvs[0].Value)
		}
		alive = len(resp.Responses[1].GetResponseRange().Kvs) > 0
		return nil
	})
	switch {
	case err != nil || name == "":
		return err
	case alive:
		return errImporting
	}
	s.logger.Warn("a copy into the store was interrupted; what it has left is removed", "store", s.where)
	return s.removeImport(ctx, name)
}
