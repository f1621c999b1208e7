package memory

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/coppice-dev/coppice/internal/store"
)

var (
	_ store.Exporter = (*Store)(nil)
	_ store.Importer = (*Store)(nil)
)

// Export implements store.Exporter.
func (s *Store) Export(ctx context.Context) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		s.mu.RLock()
		// The values are never changed.
		records, epoch, closed := slices.Clone(s.records), s.epoch, s.closed
		sequences := make(map[string]uint64, len(s.sequences))
		for prefix, last := range s.sequences {
			sequences[prefix] = max(last, s.greatestBelow(prefix))
		}
		s.mu.RUnlock()
		if closed {
			yield(store.Entry{}, store.ErrClosed)
			return
		}
		next := func(e store.Entry) bool {
			if err := ctx.Err(); err != nil {
				yield(store.Entry{}, err)
				return false
			}
			return yield(e, nil)
		}
		for _, prefix := range slices.Sorted(maps.Keys(sequences)) {
			if !next(store.Entry{Kind: store.SequenceEntry, Key: prefix, Number: sequences[prefix]}) {
				return
			}
		}
		if epoch > 0 && !next(store.Entry{Kind: store.EpochEntry, Number: epoch}) {
			return
		}
		for _, r := range records {
			if !next(store.Entry{Kind: store.RecordEntry, Key: r.Key, Value: r.Value}) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(store.Entry{}, err)
		}
	}
}

// greatestBelow returns the greatest number of the records directly below a prefix, or 0. Needs mu.
func (s *Store) greatestBelow(prefix string) uint64 {
	end, _ := s.find(prefix + "0") // '0' is the character after '/'
	for i := end - 1; i >= 0 && store.Under(prefix, s.records[i].Key); i-- {
		if seq, ok := store.ParseSequenceKey(prefix, s.records[i].Key); ok {
			return seq
		}
	}
	return 0
}

// Import implements store.Importer.
func (s *Store) Import(ctx context.Context, entries iter.Seq2[store.Entry, error]) error {
	if err := s.checkEmpty(); err != nil {
		return err
	}
	sequences := map[string]uint64{}
	var epoch uint64
	var records []store.Record
	for e, err := range store.CheckEntries(ctx, entries) {
		if err != nil {
			return err
		}
		switch e.Kind {
		case store.SequenceEntry:
			sequences[e.Key] = e.Number
		case store.EpochEntry:
			epoch = e.Number
		case store.RecordEntry:
			// An empty value is never nil.
			records = append(records, store.Record{Key: e.Key, Value: append([]byte{}, e.Value...)})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stillEmpty(); err != nil {
		return err
	}
	if len(sequences) == 0 && epoch == 0 && len(records) == 0 {
		return nil
	}
	s.rev++
	for i := range records {
		records[i].Rev = s.rev
	}
	s.records, s.sequences, s.epoch = records, sequences, epoch
	s.history.Forget(s.rev)
	return nil
}

func (s *Store) checkEmpty() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stillEmpty()
}

// stillEmpty returns an error if the store is closed or not empty. Needs mu.
func (s *Store) stillEmpty() error {
	switch {
	case s.closed:
		return store.ErrClosed
	case len(s.records) > 0 || len(s.sequences) > 0 || s.epoch > 0:
		return store.ErrNotEmpty
	}
	return nil
}
