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
	all := rpc.Get{Key: s.prefix + "n/", End: s.prefix + "n0"}
	rev, err := s.pages(ctx, all, func(kv *rpc.KeyValue) bool {
		prefix := strings.TrimPrefix(kv.Key, s.prefix+"n/")
		sequences[prefix], damaged = number(kv)
		return damaged == nil
	})
	if err = errors.Join(err, damaged); err != nil {
		return err
	}
	all.Key, all.End = s.bounds("")
	all.Revision, all.KeysOnly = rev, true
	if _, err := s.pages(ctx, all, func(kv *rpc.KeyValue) bool {
		prefix, n, ok := store.CutSequenceKey(s.record(kv.Key))
		if last := sequences[prefix]; ok && last > 0 {
			sequences[prefix] = max(last, n)
		}
		return true
	}); err != nil {
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
	all.KeysOnly = false
	_, err = s.pages(ctx, all, func(kv *rpc.KeyValue) bool {
		return yield(store.Entry{Kind: store.RecordEntry, Key: s.record(kv.Key), Value: kv.Value})
	})
	return err
}

// epochAt returns the last epoch as of a revision, or now.
func (s *Store) epochAt(ctx context.Context, rev int64) (epoch uint64, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		resp, err := s.client.Get(ctx, rpc.Get{Key: s.prefix + "epoch", Revision: rev})
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
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	name := rand.Text()
	lease, err := s.beginImport(ctx, name)
	if err == nil {
		i := &importation{s: s, name: name}
		working, cancel := context.WithCancel(ctx)
		s.calls.Go(func() { s.holdLease(working, lease) })
		err = i.run(working, store.CheckEntries(ctx, entries))
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
func (s *Store) beginImport(ctx context.Context, name string) (lease rpc.LeaseID, err error) {
	for _, from := range []string{"k/", "n/"} {
		empty := true
		all := rpc.Get{Key: s.prefix + from, End: s.prefix + from[:1] + "0", KeysOnly: true}
		if _, err := s.pages(ctx, all, func(*rpc.KeyValue) bool {
			empty = false
			return false
		}); err != nil {
			return 0, err
		}
		if !empty {
			return 0, store.ErrNotEmpty
		}
	}
	key := s.prefix + importing
	err = s.retry(ctx, func(ctx context.Context) error {
		id, err := s.client.Grant(ctx, int64(importerTTL/time.Second))
		if err != nil {
			return err
		}
		lease = id
		alive := rpc.Put{Key: s.prefix + importer, Value: []byte(name), Lease: lease}
		resp, err := s.client.Txn(ctx, rpc.Txn{
			If:   []rpc.Compare{rpc.IsMissing(key), rpc.IsMissing(s.prefix + "epoch")},
			Then: []rpc.Op{rpc.Put{Key: key, Value: []byte(name)}, alive},
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
		case string(kvs[0].Value) != name:
			return errImporting
		}
		// An attempt that got no answer has succeeded.
		_, err = s.client.Txn(ctx, rpc.Txn{Then: []rpc.Op{alive}})
		return err
	})
	return lease, err
}

// holdLease keeps the lease of an import until ctx ends, unless etcd cannot be reached for too long.
func (s *Store) holdLease(ctx context.Context, id rpc.LeaseID) {
	tick := time.NewTicker(importerTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_ = s.retry(ctx, func(ctx context.Context) error {
			_, err := s.client.KeepAlive(ctx, id)
			return err
		})
	}
}

// importation is one import.
type importation struct {
	s     *Store
	name  string
	ops   []rpc.Op
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
			err = i.put(ctx, i.s.sequenceKey(e.Key), strconv.AppendUint(nil, e.Number, 10))
		case store.RecordEntry:
			err = i.put(ctx, i.s.key(e.Key), e.Value)
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
	return []rpc.Compare{rpc.HasValue(i.s.prefix+importing, i.name), rpc.HasValue(i.s.prefix+importer, i.name)}
}

var errGivenUp = errors.New("the copy was given up, since etcd could not be reached for too long; begin it again")

func (i *importation) flush(ctx context.Context) error {
	if len(i.ops) == 0 {
		return nil
	}
	err := i.s.retry(ctx, func(ctx context.Context) error {
		resp, err := i.s.client.Txn(ctx, rpc.Txn{If: i.isMine(), Then: i.ops})
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
	then := []rpc.Op{rpc.Delete{Key: s.prefix + importing}, rpc.Delete{Key: s.prefix + importer},
		rpc.Put{Key: s.prefix + imported, Value: []byte(i.name)}}
	if epoch > 0 {
		then = append(then, rpc.Put{Key: s.prefix + "epoch", Value: strconv.AppendUint(nil, epoch, 10)})
	}
	tried := false
	err := s.retry(ctx, func(ctx context.Context) error {
		tried = true
		resp, err := s.client.Txn(ctx, rpc.Txn{If: i.isMine(), Then: then,
			Else: []rpc.Op{rpc.Get{Key: s.prefix + imported}}})
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

// removeImport removes what an import has written that was not finished, and that has this name.
func (s *Store) removeImport(ctx context.Context, name string) error {
	return s.retry(ctx, func(ctx context.Context) error {
		// The number of keys of one transaction is bounded, that of a range is not.
		_, err := s.client.Txn(ctx, rpc.Txn{
			If: []rpc.Compare{rpc.HasValue(s.prefix+importing, name)},
			Then: []rpc.Op{rpc.Delete{Key: s.prefix + "k/", End: s.prefix + "k0"},
				rpc.Delete{Key: s.prefix + "n/", End: s.prefix + "n0"},
				rpc.Delete{Key: s.prefix + importer}, rpc.Delete{Key: s.prefix + importing}},
		})
		return err
	})
}

// checkImport fails while another process imports, and removes what an import has left that was interrupted.
func (s *Store) checkImport(ctx context.Context) error {
	name, alive := "", false
	err := s.retry(ctx, func(ctx context.Context) error {
		resp, err := s.client.Txn(ctx, rpc.Txn{
			Then: []rpc.Op{rpc.Get{Key: s.prefix + importing}, rpc.Get{Key: s.prefix + importer}}})
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
	s.logger.Warn("a copy into the store was interrupted; what it has left is removed", "store", s.where)
	return s.removeImport(ctx, name)
}
