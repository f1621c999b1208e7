package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
)

// The test binary is the agent of the fleet, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		agent(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		forkingShim()
		return
	}
	if len(os.Args) > 3 && os.Args[1] == "stage" {
		os.Exit(stage(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// The short forms of make chaos.
func TestChaos(t *testing.T) {
	t.Parallel()
	coppice := build(t)
	for perShim, rounds := range map[int]int{1: 5, 8: 10} {
		t.Run(fmt.Sprint(perShim), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			o := options{coppice: coppice, agents: 30, crashing: 6, program: 4, perShim: perShim,
				rounds: rounds, seed: seed, dir: t.TempDir(), say: t.Logf}
			if err := run(o); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBeliefChaos(t *testing.T) {
	t.Parallel()
	coppice := build(t)
	for _, perShim := range []int{1, 32} {
		t.Run(fmt.Sprint(perShim), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			if err := runBeliefs(options{coppice: coppice, agents: 4, perShim: perShim, rounds: 12, seed: seed,
				dir: t.TempDir(), say: t.Logf}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOrderChaos(t *testing.T) {
	t.Parallel()
	coppice := build(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	if err := runOrders(options{coppice: coppice, rounds: 10, runs: 100, seed: seed, dir: t.TempDir(), say: t.Logf}); err != nil {
		t.Error(err)
	}
}

// A backlog goes through a pipeline, once as it is and once while processes are killed. 22 tasks keep it short.
func TestPipelineChaos(t *testing.T) {
	t.Parallel()
	coppice := build(t)
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), "1"), 10, 64)
	for name, rounds := range map[string]int{"undisturbed": 0, "killed": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options{coppice: coppice, divided: 3, rounds: rounds, seed: seed, dir: t.TempDir(), say: t.Logf}
			if err := runPipeline(o); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}

func build(t *testing.T) (coppice string) {
	if testing.Short() {
		t.Skip("kills a daemon for some seconds")
	}
	coppice = filepath.Join(t.TempDir(), "coppice")
	if out, err := exec.Command("go", "build", "-o", coppice, "../../cmd/coppice").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return coppice
}

// The audit finds what it is there for.
func TestAudit(t *testing.T) {
	good := "start 0 0 \"\" 0\ntry 1\nack 1\ntry 2\nstart 2 4 \"2:4\" 0\ntry 3\nstart 2 4 \"2:4\" 0\ntry"
	if a, err := audit([]byte(good)); err != nil || a != (account{lives: 3, acks: 1, acknowledged: 2, tried: 2}) {
		t.Errorf("%+v, %v", a, err)
	}
	for what, bad := range map[string]string{
		"lost":     "start 0 0 \"\" 0\ntry 1\nack 1\nstart 0 0 \"\" 0\n",
		"half":     "start 0 0 \"\" 0\ntry 1\nack 1\nstart 1 0 \"1:1\" 0\n",
		"old life": "start 0 0 \"\" 0\ntry 1\nack 1\nstart 1 1 \"1:1\" 1\n",
		"twice":    "start 0 0 \"\" 0\ntry 1\nack 1\nstart 1 1 \"1:1\" 0\ntry 2\ntry 2\n",
		"other":    "start 0 0 \"\" 0\ntry 1\nack 2\n",
		"refused":  "start 0 0 \"\" 0\ntry 1\nerror 1 stale\n",
	} {
		if _, err := audit([]byte(bad)); err == nil {
			t.Errorf("%s was not found", what)
		}
	}
}

// The audit of orders finds what it is there for.
func TestOrderAudit(t *testing.T) {
	at := time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)
	type told struct {
		kind          event.Type
		order, run    string
		after, second int // of the event, and of the schedule
	}
	type trial struct {
		events       []told
		cool, hand   string
		heard        []uint64
		acknowledged []string
	}
	good := func() trial {
		return trial{
			events: []told{
				{event.OrderFired, "cool", "r-1", 0, 0}, {event.OrderCompleted, "cool", "r-1", 0, 0},
				{event.OrderFired, "hand", "r-2", 0, 0}, {event.OrderCompleted, "hand", "r-2", 0, 0},
			},
			cool: "begin r-1\nend r-1\n", hand: "begin r-2\nend r-2\n", heard: []uint64{2}, acknowledged: []string{"r-2"},
		}
	}
	for what, change := range map[string]func(*trial){
		"":                         func(*trial) {},
		"began 2 times":            func(c *trial) { c.cool += c.cool },
		"began 0 times":            func(c *trial) { c.hand = "" },
		"was fired 0 times":        func(c *trial) { c.cool += "begin r-9\nend r-9\n" },
		"has completed 0 times":    func(c *trial) { c.events = c.events[:3] },
		"while r-1 went on":        func(c *trial) { c.cool = "begin r-1\nbegin r-3\nend r-1\nend r-3\n" },
		"was never handed over":    func(c *trial) { c.heard = nil },
		"was handed over twice":    func(c *trial) { c.heard = []uint64{2, 2} },
		"none of those asked for":  func(c *trial) { c.heard = append(c.heard, 4) },
		"acknowledged, and is not": func(c *trial) { c.acknowledged = append(c.acknowledged, "r-7") },
		"run r-1 of cool":          func(c *trial) { c.events = append(c.events, told{event.OrderFailed, "cool", "r-1", 0, 0}) },
		"after one for": func(c *trial) {
			c.events = append(c.events, told{event.OrderFired, "tick", "r-4", 5, 5}, told{event.OrderFired, "tick", "r-5", 6, 5})
		},
		"there was a time between": func(c *trial) {
			c.events = append(c.events, told{event.OrderFired, "tick", "r-4", 5, 5}, told{event.OrderFired, "tick", "r-5", 9, 7})
		},
		"its reason is \"by hand\"": func(c *trial) { c.events = append(c.events, told{event.OrderFired, "tick", "r-4", 5, -1}) },
	} {
		c := good()
		change(&c)
		a := newOrderAudit()
		for i, e := range c.events {
			reason := "by hand"
			if e.second >= 0 {
				reason = "it is time: " + at.Add(time.Duration(e.second)*time.Second).Format(time.RFC3339)
			}
			a.event(event.Event{Seq: uint64(i + 1), Time: at.Add(time.Duration(e.after) * time.Second), Type: e.kind, Message: "failed"}.
				With(map[string]any{"order": e.order, "run": e.run, "reason": reason}))
		}
		a.journal("cool", c.cool)
		a.journal("hand", c.hand)
		a.hear(c.heard)
		a.acknowledge(c.acknowledged)
		_, err := a.close()
		if what == "" && err != nil || what != "" && (err == nil || !strings.Contains(err.Error(), what)) {
			t.Errorf("%q: found %v", what, err)
		}
	}
}
