package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// What is stopped or suspended in the delay before its restart is called that in the log.
func TestStopInADelayIsNoSuspension(t *testing.T) {
	for action, want := range map[control.Action]string{
		control.Stop:    `t/a stopped: stopped by hand {"state":"stopped","reason":"stopped by hand"}`,
		control.Suspend: `t/a suspended: suspended until it is resumed {"state":"suspended","reason":"suspended until it is resumed"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			tree := edited(t, treeOf(t, "a"), "a", func(a *spec.Agent) {
				a.Backoff = supervisor.Backoff{Kind: supervisor.Fixed, Base: time.Minute}
			})
			p := newPlay(t, tree)
			defer p.close()
			p.stage.on("t/a").end(part{}.ending())
			time.Sleep(time.Second)
			if _, err := p.control.Act(context.Background(), "t/a", action); err != nil {
				t.Fatal(err)
			}
			events, _, err := p.log.Read(context.Background(), 0, event.Filter{Types: []string{string(event.AgentChanged)}}, 0)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range events {
				got = append(got, fmt.Sprintf("%s %s", e.Message, e.Data))
			}
			if got := strings.Join(got, "\n"); got != want {
				t.Errorf("%s: %s, want %s", action, got, want)
			}
		})
	}
}
