package task

import (
	"slices"

	"github.com/coppice-dev/coppice/internal/task/pools"
)

// PoolTasks has the state of a pool, and counts its tasks.
type PoolTasks struct {
	_ struct{} `open:"true" doc:"The state of a pool, and how many tasks it has."`

	Pool       pools.Pool `json:"pool"`
	Ready      int        `json:"ready" minimum:"0" doc:"Tasks that can be claimed now, or could be if the pool were not paused."`
	InProgress int        `json:"in_progress" minimum:"0" doc:"Tasks that are claimed."`
	ForPerson  int        `json:"for_person" minimum:"0" doc:"Tasks that wait for a person: one is asked about them, or they are parked."`
}

// Tried is an attempt that has ended, with its task.
type Tried struct {
	_ struct{} `open:"true" doc:"An attempt that has ended, with its task."`

	Task    string  `json:"task" doc:"Id of the task."`
	Title   string  `json:"title" doc:"Title of the task."`
	Attempt Attempt `json:"attempt"`
}

// PoolTasks returns the state of a pool and the numbers of its tasks. Any name is one of a pool.
func (s *State) PoolTasks(name string) PoolTasks {
	x := s.index
	of := func(status Status) int { return x.counts[countKey{status: status, pool: name}] }
	t := PoolTasks{
		Pool: s.pool(name), Ready: of(statusReady) + len(x.held[name]), InProgress: of(InProgress),
		ForPerson: of(Parked),
	}
	for id := range x.asked {
		if r := s.Record(id); r.Pool == name && r.Status != Parked {
			t.ForPerson++
		}
	}
	return t
}

// LastTried returns the tasks of a pool whose last attempts have ended last, at most n, the latest first.
func (s *State) LastTried(name string, n int) (all []Task) {
	var last []*Record
	later := func(a, b *Record) int { return b.LastAttemptAt.Compare(a.LastAttemptAt) }
	for e := range s.index.selected(Filter{Pool: name, All: true}, nil) {
		if e.LastAttemptAt.IsZero() || len(last) == n && later(e.Record, last[n-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(last, e.Record, later)
		last = slices.Insert(last, at, e.Record)
		last = last[:min(len(last), n)]
	}
	for _, r := range last {
		all = append(all, s.Show(r))
	}
	return all
}
