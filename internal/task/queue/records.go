package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"sync"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/task/pools"
	"github.com/coppice-dev/coppice/internal/task/transfer"
)

// taskPart holds the records of tasks.
const taskPart task.Part = "tasks"

// Keys in the store.
const (
	prefix    = "work"
	markerKey = prefix + "/marker"
)

// records reads and writes the stored data of tasks.
type records struct {
	store  store.Store
	logger *slog.Logger

	mu  sync.Mutex
	bad map[string]bool // keys of records that cannot be read
}

func key(part task.Part, id string) string { return prefix + "/" + string(part) + "/" + id }

// writeOp returns the operation for a write next to a record.
func writeOp(w task.Write) store.Op {
	op := store.Op{Kind: store.Put, Key: key(w.Part, w.ID), Value: w.Value}
	switch w.Part {
	case task.CommentPart:
		op.Key = fmt.Sprintf("%s/%04d", op.Key, w.N)
	case task.AttemptPart:
		op.Key = fmt.Sprintf("%s/%09d", op.Key, w.N)
	case task.PoolPart:
		op.Key = key(w.Part, url.PathEscape(w.ID))
	}
	if w.Value == nil {
		op.Kind = store.Delete
	}
	return op
}

// changeOp returns the operation for a change of a record.
func changeOp(c task.Changed) store.Op {
	if c.After == nil {
		return store.Op{Kind: store.Delete, Key: key(taskPart, c.ID)}
	}
	value, _ := json.Marshal(c.After) // cannot fail for these types
	return store.Op{Kind: store.Put, Key: key(taskPart, c.ID), Value: value}
}

// loadAll reads all tasks. number is the highest number of a task.
func (s *records) loadAll(ctx context.Context) (x *task.Index, number uint64, err error) {
	x = task.NewIndex()
	under := prefix + "/" + string(taskPart)
	for stored, err := range store.All(ctx, s.store, under) {
		if err != nil {
			return nil, 0, fmt.Errorf("reading %s: %w", under, err)
		}
		r, err := s.decode(stored)
		if err != nil {
			s.logBadRecord(stored.Key, err)
			continue
		}
		number = max(number, r.Number)
		x.Add(r)
	}
	return x, number, nil
}

// pools reads what is known of pools. A record that cannot be read is logged, and means that the pool is open.
func (s *records) pools(ctx context.Context) (all []pools.Pool, _ error) {
	under := prefix + "/" + string(task.PoolPart)
	for stored, err := range store.All(ctx, s.store, under) {
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", under, err)
		}
		var p pools.Pool
		if err := json.Unmarshal(stored.Value, &p); err != nil {
			s.logBadRecord(stored.Key, err)
			continue
		}
		all = append(all, p)
	}
	return all, nil
}

// decode reads a record. A record that cannot be read is skipped and logged, and stays in the
// store.
func (s *records) decode(stored store.Record) (*task.Record, error) {
	r := new(task.Record)
	if err := json.Unmarshal(stored.Value, r); err != nil {
		return nil, err
	}
	if key(taskPart, r.ID) != stored.Key {
		return nil, fmt.Errorf("its id is %q", r.ID)
	}
	r.Ready, r.Paused, r.WaitsFor, r.Stuck = false, false, nil, nil
	if !slices.Contains(task.Statuses(), r.Status) { // of a later version of Coppice
		s.logBadRecord(stored.Key, fmt.Errorf("its status is %q", r.Status))
		r.Status = task.Blocked
	}
	return r, nil
}

// logBadRecord logs a record that cannot be read, once.
func (s *records) logBadRecord(key string, err error) {
	s.mu.Lock()
	logged := s.bad[key]
	s.bad[key] = true
	s.mu.Unlock()
	if !logged {
		s.logger.Warn("cannot read the record of a task; leaving it as it is", "key", key, "error", err)
	}
}

// get reads one record.
func (s *records) get(ctx context.Context, key string) (store.Record, bool, error) {
	some, _, err := s.store.Snapshot(ctx, key)
	if err != nil {
		return store.Record{}, false, fmt.Errorf("reading %s: %w", key, err)
	}
	for _, r := range some {
		if r.Key == key {
			return r, true, nil
		}
	}
	return store.Record{}, false, nil
}

// text returns the text of a task: the stored one, or else the description of its bead.
func (s *records) text(ctx context.Context, r *task.Record) (string, error) {
	stored, found, err := s.get(ctx, key(task.TextPart, r.ID))
	if err != nil || found || !r.Imported {
		return string(stored.Value), err
	}
	brought := key(task.ImportedPart, r.ID)
	if stored, _, err = s.get(ctx, brought); err != nil {
		return "", err
	}
	text, err := transfer.Text(stored.Value)
	if err != nil {
		s.logBadRecord(brought, err)
	}
	return text, nil
}

// comments returns the comments of a task, oldest first.
func (s *records) comments(ctx context.Context, id string) (all []task.SavedComment, _ error) {
	for r, err := range store.All(ctx, s.store, key(task.CommentPart, id)) {
		if err != nil {
			return nil, fmt.Errorf("reading the comments of %s: %w", id, err)
		}
		var c task.SavedComment
		if err := json.Unmarshal(r.Value, &c); err != nil {
			s.logBadRecord(r.Key, err)
			c.Text = "(this comment cannot be read)"
		}
		all = append(all, c)
	}
	return all, nil
}

// attempts returns the attempts at a task that have ended, oldest first.
func (s *records) attempts(ctx context.Context, id string) (all []task.Attempt, _ error) {
	for r, err := range store.All(ctx, s.store, key(task.AttemptPart, id)) {
		if err != nil {
			return nil, fmt.Errorf("reading the attempts at %s: %w", id, err)
		}
		var a task.Attempt
		if err := json.Unmarshal(r.Value, &a); err != nil {
			s.logBadRecord(r.Key, err)
			continue
		}
		all = append(all, a)
	}
	return all, nil
}

// values reads one part of many tasks in portions. The tasks are asked for in the order of their
// ids.
type values struct {
	*records
	part task.Part
	from string // the key after which the next portion begins
	read []store.Record
	over bool // no more records follow
}

func (s *records) values(part task.Part, after string) *values {
	v := &values{records: s, part: part}
	if after != "" {
		v.from = key(part, after)
	}
	return v
}

// get returns the part of a task, nil if there is none. Each id must be greater than the last.
func (v *values) get(ctx context.Context, id string) ([]byte, error) {
	const some = 500
	wanted := key(v.part, id)
	for {
		for len(v.read) > 0 && v.read[0].Key < wanted {
			v.read = v.read[1:]
		}
		if len(v.read) > 0 || v.over {
			break
		}
		under := prefix + "/" + string(v.part)
		var err error
		if v.read, _, err = v.store.Scan(ctx, under, v.from, some); err != nil {
			return nil, fmt.Errorf("reading %s: %w", under, err)
		}
		if v.over = len(v.read) == 0; !v.over {
			v.from = v.read[len(v.read)-1].Key
		}
	}
	if len(v.read) == 0 || v.read[0].Key != wanted {
		return nil, nil
	}
	if v.read[0].Value == nil {
		return []byte{}, nil // nil stands for that there is none
	}
	return v.read[0].Value, nil
}
