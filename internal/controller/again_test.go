package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/supervisor"
)

// However a supervisor comes to be started again, its children go on with their
// numbers, whatever their restart policy: their slots would refuse a number
// that was there before.
func TestNumbersGoOnUnderASupervisorThatIsRestarted(t *testing.T) {
	boom := supervisor.Exit{Kind: supervisor.Failure, Err: errors.New("boom")}
	normal := supervisor.Exit{Kind: supervisor.Normal}
	for _, once := range []bool{false, true} {
		for _, restart := range []supervisor.Restart{supervisor.Permanent, supervisor.Transient, supervisor.Temporary} {
			for _, strategy := range []supervisor.Strategy{supervisor.OneForOne, supervisor.OneForAll, supervisor.RestForOne} {
				for _, auto := range []supervisor.AutoShutdown{supervisor.NeverShutdown, supervisor.AllSignificant, supervisor.WhenDone} {
					t.Run(fmt.Sprint(once, " ", restart, " ", strategy, " ", auto), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							tree := treeOf(t, "a", "s(b c)")
							for path, child := range tree.All() {
								switch {
								case path == "t/s":
									child.Node.Strategy, child.Node.AutoShutdown, child.Node.Limit = strategy, auto, supervisor.Escalating(1, time.Hour)
								case path == "t/s/b":
									child.Agent.Restart = restart
									child.Agent.Significant = auto == supervisor.AllSignificant && restart != supervisor.Permanent
									child.Agent.Limit = supervisor.Limit{}
								case path == "t/s/c":
									child.Agent.Restart, child.Agent.Limit = restart, supervisor.Limit{}
									child.Agent.Significant = auto == supervisor.AllSignificant && restart != supervisor.Permanent
								}
							}
							tree.Root.Limit = supervisor.Limit{Max: supervisor.Unlimited}
							s, db := newStage(), memory.New()
							open := func() *play {
								c, err := Open(context.Background(), Options{Tree: tree, Store: db, Runtimes: stages(s), Logger: quietly, Once: once})
								if err != nil {
									t.Fatal(err)
								}
								time.Sleep(time.Minute)
								return &play{c, t, s, db}
							}
							p := open()
							for n, exit := range []supervisor.Exit{normal, boom, boom, normal, normal, boom, boom} {
								for _, path := range []string{"t/s/b", "t/s/c"} {
									if a := s.on(path); a != nil {
										a.end(exit)
									}
								}
								time.Sleep(time.Minute)
								if !once && n == 3 {
									p.Stop(true)
									<-p.Ended()
									p = open()
								}
								p.control.Act(context.Background(), "t/s/b", control.Start) // where it has ended
								time.Sleep(time.Minute)
								if a := s.on("t/s/b"); n%2 == 0 && a != nil {
									a.end(exit)
									time.Sleep(time.Minute)
								}
								p.control.Act(context.Background(), "t/s", control.Restart)
								time.Sleep(time.Minute)
								if s.on("t/s/b") == nil && s.on("t/s/c") == nil {
									t.Fatalf("after a restart of their supervisor there live %s: %v", s.cast(), s.begun)
								}
							}
							p.close()
							last := map[string]int{}
							for _, begun := range s.begun {
								path, n, _ := strings.Cut(begun, " ")
								var number int
								fmt.Sscan(n, &number)
								if number <= last[path] {
									t.Fatalf("%s was started as %d after %d: %v", path, number, last[path], s.begun)
								}
								last[path] = number
							}
						})
					})
				}
			}
		}
	}
}
