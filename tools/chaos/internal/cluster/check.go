package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/tools/chaos/internal/network"
)

// readyNodes returns how many nodes of a listing are the controller, and an error if one is not ready.
func readyNodes(text string) (leaders int, err error) {
	var all []nodes.Info
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return 0, fmt.Errorf("%w: %s", err, text)
	}
	for _, n := range all {
		if n.Controller {
			leaders++
		}
		if n.State != nodes.Ready {
			err = cmp.Or(err, fmt.Errorf("node %s is %s", n.Name, n.State))
		}
	}
	if len(all) != network.Members {
		err = fmt.Errorf("%d nodes, expected %d", len(all), network.Members)
	}
	return leaders, err
}

// taskAdder adds tasks at all nodes, one after the other, and keeps which were acknowledged.
type taskAdder struct {
	end, ended   chan struct{}
	once         sync.Once
	acknowledged []string
	failed       int
}

// addPause is the time between two tasks.
const addPause = 250 * time.Millisecond

func newTaskAdder(all []*node) *taskAdder {
	a := &taskAdder{end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		for i := 0; ; i++ {
			select {
			case <-a.end:
				return
			case <-time.After(addPause):
			}
			err := all[i%len(all)].ask(5*time.Second, func(ctx context.Context, c *api.Client) error {
				added, err := task.Add.Call(ctx, c, task.AddRequest{Task: task.Draft{Title: fmt.Sprint("task ", i)}})
				if err == nil {
					a.acknowledged = append(a.acknowledged, added.ID)
				}
				return err
			})
			if err != nil {
				a.failed++
			}
		}
	}()
	return a
}

// stop returns when no task is being added.
func (a *taskAdder) stop() {
	a.once.Do(func() { close(a.end) })
	<-a.ended
}

// check returns how many tasks were acknowledged, and an error if one is not there.
func (a *taskAdder) check(n *node) (acknowledged, failed int, err error) {
	there := map[string]bool{}
	const page = 1000
	err = n.ask(patience, func(ctx context.Context, c *api.Client) error {
		for after := ""; ; {
			some, err := task.List.Call(ctx, c, task.ListRequest{Limit: page, After: after})
			if err != nil {
				return err
			}
			for _, one := range some {
				there[one.ID] = true
				after = one.ID
			}
			if len(some) < page {
				return nil
			}
		}
	})
	if err != nil {
		return 0, 0, err
	}
	for _, id := range a.acknowledged {
		if !there[id] {
			return 0, 0, fmt.Errorf("task %s was acknowledged, and is not there", id)
		}
	}
	return len(a.acknowledged), a.failed, nil
}

// times has what was measured: the times of an observation of a fault.
type times map[[2]string][]time.Duration

func (c times) add(fault, what string, took time.Duration) {
	key := [2]string{fault, what}
	c[key] = append(c[key], took)
}

// target returns the most that a time may be; 0 if there is no target.
func target(what string) time.Duration {
	return map[string]time.Duration{"controller": takeoverTarget, "agents": elsewhereTarget}[what]
}

// table returns the times, a line each.
func (c times) table() []string {
	all := []string{fmt.Sprintf("%-44s %-11s %6s %8s %8s %8s", "FAULT", "UNTIL", "ROUNDS", "MEDIAN", "MAX", "TARGET")}
	keys := slices.SortedFunc(maps.Keys(c), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	for _, key := range keys {
		times := slices.Sorted(slices.Values(c[key]))
		wanted := "-"
		if t := target(key[1]); t > 0 {
			wanted = t.String()
		}
		all = append(all, fmt.Sprintf("%-44s %-11s %6d %7.2fs %7.2fs %8s", key[0], key[1], len(times),
			times[len(times)/2].Seconds(), times[len(times)-1].Seconds(), wanted))
	}
	return all
}

// late returns an error if a time is more than its target and some slack.
func (c times) late(slack time.Duration) error {
	for key, times := range c {
		if most, wanted := slices.Max(times), target(key[1]); wanted > 0 && most > wanted+slack {
			return fmt.Errorf("%s: %s after %v, expected at most %v", key[0], key[1], most.Round(time.Millisecond),
				wanted+slack)
		}
	}
	return nil
}
