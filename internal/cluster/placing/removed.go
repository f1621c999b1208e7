package placing

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// removedLogs are the nodes that keep logs of agents that were removed, by path, as Removed has found them last.
type removedLogs struct {
	mu sync.Mutex
	on map[string][]string
}

func (l *removedLogs) set(on map[string][]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = on
}

func (l *removedLogs) of(path string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.on[path]
}

// Removed implements runtime.Runtime. What is kept on a node that does not answer is left out.
func (r *Runtime) Removed() ([]string, error) {
	here, err := r.Runtime.Removed()
	if err != nil {
		return nil, err
	}
	type answer struct {
		node  string
		paths []string
		err   error
	}
	nodes := r.places.Nodes()
	answers, asked := make(chan answer, len(nodes)), 0
	for _, n := range nodes {
		if n.Name == r.places.Node || !r.places.IsUp(n.Name) {
			continue
		}
		asked++
		go func() {
			paths, err := r.at(n.Name).Removed()
			answers <- answer{n.Name, paths, err}
		}()
	}
	all, on := make(map[string]bool), make(map[string][]string)
	for _, path := range here {
		all[path] = true
	}
	late := time.NewTimer(listTimeout)
	defer late.Stop()
	for ; asked > 0; asked-- {
		select {
		case a := <-answers:
			if a.err != nil {
				r.places.Logger.Warn("logs of removed agents on a node are not shown", "node", a.node, "error", a.err)
			}
			for _, path := range a.paths {
				all[path] = true
				on[path] = append(on[path], a.node)
			}
		case <-late.C:
			r.places.Logger.Warn("logs of removed agents are not shown: nodes do not answer", "nodes", asked)
			asked = 1
		}
	}
	r.removed.set(on)
	return slices.Sorted(maps.Keys(all)), nil
}
