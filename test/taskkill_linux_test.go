package test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/token"
)

// 64 claimers of 8 agents race for tasks while the daemon is killed repeatedly. No task is claimed
// twice or lost, although answers are.
func TestClaimsKill(t *testing.T) {
	t.Parallel()
	const agents, each, tasks, kills = 8, 8, 400, 3
	blocks := make([]string, agents)
	for i := range blocks {
		blocks[i] = tokenKeeperTOML(fmt.Sprint("a", i))
	}
	f := newFleet(t, blocks...)
	f.do("up", "-d")
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	people := f.client()
	for n := range tasks {
		if _, err := task.Add.Call(t.Context(), people, task.AddRequest{Task: task.Draft{Title: fmt.Sprint(n), Pool: "p"}}); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	owner := map[string]string{}
	closed, lost := 0, 0               // tasks; answers
	next := make(chan struct{})        // closed when the next daemon runs
	enough := make(chan struct{}, 100) // a token whenever a daemon has done enough
	// again repeats a call until a daemon answers.
	again := func(ask func() error) error {
		for {
			mu.Lock()
			after := next
			mu.Unlock()
			err := ask()
			if err == nil || errors.Is(err, api.ErrInvalid) || errors.Is(err, api.ErrConflict) || errors.Is(err, token.ErrStale) || errors.Is(err, api.ErrNotFound) {
				return err
			}
			mu.Lock()
			lost++
			mu.Unlock()
			select {
			case <-after:
			case <-t.Context().Done():
				return err
			}
		}
	}
	claimer := func(name, token string) {
		c := api.DialAgent(socket, token)
		defer c.Close()
		for {
			key := rand.Text()
			var got []task.Task
			if err := again(func() (err error) {
				got, err = task.Claim.Call(context.Background(), c, task.ClaimRequest{Pools: []string{"p"}, Key: key})
				return err
			}); err != nil {
				t.Errorf("claiming: %v", err)
				return
			}
			if len(got) == 0 {
				return
			}
			id := got[0].ID
			mu.Lock()
			if owner[id] != "" {
				t.Errorf("%s was claimed by %s, and by %s", id, owner[id], name)
			}
			owner[id] = "t/" + name
			mu.Unlock()
			if err := again(func() error {
				_, err := task.Act.Call(context.Background(), c, task.ActRequest{ID: id, Action: task.Close})
				return err
			}); err != nil {
				t.Errorf("closing %s: %v", id, err)
				return
			}
			mu.Lock()
			if closed++; closed%(tasks/(kills+1)) == 0 {
				enough <- struct{}{}
			}
			mu.Unlock()
		}
	}
	var claimers sync.WaitGroup
	for i := range agents {
		name := fmt.Sprint("a", i)
		token := f.token(name, 1)
		for range each {
			claimers.Go(func() { claimer(name, token) })
		}
	}
	for range kills {
		<-enough
		f.crash()
		f.do("up", "-d")
		mu.Lock()
		close(next)
		next = make(chan struct{})
		mu.Unlock()
	}
	claimers.Wait()
	all, err := task.ListAll(t.Context(), f.client(), task.Filter{All: true}, 0)
	if err != nil || len(all) != tasks || len(owner) != tasks {
		t.Fatalf("%d tasks, %d of them claimed; %v", len(all), len(owner), err)
	}
	for _, one := range all {
		if one.Status != task.Closed || one.Claims != 1 || one.ClosedBy != owner[one.ID] {
			t.Errorf("%s of %s: %+v", one.ID, owner[one.ID], one)
		}
	}
	told := 0
	for i := range agents {
		told += len(f.events(event.TaskClaimed, fmt.Sprint("t/a", i)))
	}
	if told != tasks {
		t.Errorf("%d claims were told of", told)
	}
	t.Logf("%d requests had no answer", lost)
}

// The script of docs/tasks.md works, parks failing tasks, and repeats what it was killed during.
func TestTaskScript(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "tasks.md"))
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, "[daemon]\nmax_restarts = 0\n\n", agentTOML("a", block(t, string(data), "bash")))
	write(t, filepath.Join(f.dir, "do-it"), `#!/bin/sh
text=$(cat)
case $text in
*fails*) exit 1 ;;
*"kills its agent"*) [ -e killed ] || { : > killed; kill -9 "$PPID"; exec sleep 1000; } ;;
esac
`)
	if err := os.Chmod(filepath.Join(f.dir, "do-it"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.do("up", "-d")
	good, bad, killer := f.add("good", "--pool", "a"), f.add("this one fails", "-a", "a"), f.add("kills its agent", "--pool", "a")
	eventually(t, "the end of the work", func() bool {
		return f.task(good).Status == task.Closed && f.task(bad).Status == task.Parked && f.task(killer).Status == task.Closed
	})
	if got := f.task(killer); got.Claims != 2 || got.ClosedBy != "t/a" || f.node("t/a").Incarnation < 5 {
		t.Errorf("%+v", got)
	}
	if got := f.task(bad); got.Claims != 3 || got.Claim != nil {
		t.Errorf("%+v", got)
	}
}
