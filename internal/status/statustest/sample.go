package statustest

import (
	"os"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/supervisor"
)

// Sample returns a fleet with a node in each state that lists treat differently.
func Sample() *Fleet {
	started := time.Now().Add(-time.Hour)
	next := time.Now().Add(time.Hour + 30*time.Second)
	agent := func(path, state string) status.Node {
		return status.Node{Path: path, Kind: "agent", Runtime: "proc", State: state, Host: "n1", LimitMax: -1}
	}
	db := agent("app/back/db", "running")
	db.Terminal = true
	db.PID, db.Incarnation, db.Restarts, db.StartedAt, db.Uptime = 4711, 3, 2, &started, 3600.9
	db.SetLimit(supervisor.GivingUp(10), 1)
	web := agent("app/back/web", "restarting")
	web.Incarnation, web.Restarts, web.NextAt = 7, 6, &next
	web.LastExit, web.Failed, web.Reason = "exit code 7", true, "it always restarts"
	web.SetLimit(supervisor.Quarantining(10, time.Hour), 4)
	worker := agent("app/worker", "given_up")
	worker.Incarnation, worker.Restarts, worker.LimitOf = 11, 10, "app"
	worker.Reason, worker.LastExit, worker.Failed = "limit reached, given up until reset", "exit code 1", true
	hostile := agent("app/\x1b[31mred", "stopped")
	hostile.Reason = "stopped\x1b]0;title\a on request"
	root := status.Node{
		Path: "app", Kind: "supervisor", Strategy: "one_for_one", State: "running", StartedAt: &started, Uptime: 3600,
	}
	root.SetLimit(supervisor.Escalating(5, time.Minute), 2)
	back := status.Node{
		Path: "app/back", Kind: "supervisor", Strategy: "rest_for_one", State: "running", Incarnation: 1,
		StartedAt: &started, Uptime: 3600, LimitMax: -1,
	}
	f := New(root, back, db, web, worker, hostile)
	f.SetStatus(status.Status{
		Project: "app",
		Controller: status.Controller{
			PID: os.Getpid(), Host: "n1", Version: "v1.2.3", StartedAt: started, Uptime: 3600,
		},
		Summary: map[string]int{"running": 1, "restarting": 1, "given_up": 1, "stopped": 1, "paused": 0},
		Store:   status.Store{Kind: "sqlite", Path: "/p/store.db", OK: true},
		Config:  status.Config{Path: "/p/coppice.toml", Revision: "0123456789abcdef", LoadedAt: started},
	})
	f.SetExplanation(status.Explanation{
		Node: web, Rule: "it always restarts",
		Evidence: []string{"exit code 7 after 2 s", "4 restarts in the last minute, 5 are allowed"},
		Next:     "it is started again in 1h",
		Hint:     "at once: coppice start back/web",
		Tail:     []string{"last \x1b[31mwords"},
		History: []event.Event{{
			Seq: 9, Time: time.Now().Add(-90 * time.Second), Type: event.AgentCrashed, Path: "app/back/web",
			Incarnation: 7, Message: "exit code 7",
		}},
	})
	return f
}
