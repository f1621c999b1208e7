package test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// A port that another process holds does not make an agent ready. The holder is named wherever
// users look.
func TestPortOfSomebodyElse(t *testing.T) {
	// Not parallel: forked processes of other tests hold this listener until their exec, and a
	// process younger than the agent may count as its own.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ready := fmt.Sprintf(`ready = { tcp = "%s", timeout = "2s" }`, l.Addr())
	limit := []string{"max_restarts = 1", `restart_window = "1h"`, ready}
	f := newFleet(t, agentTOML("api", "exec sleep 1000", limit...), agentTOML("web", "exec sleep 1000", append(limit, inTmux)...))
	said := f.wantCode(exitFailure, "up", "-d")
	_, port, _ := net.SplitHostPort(l.Addr().String())
	held := fmt.Sprintf("port %s is held by pid %d", port, os.Getpid())
	if strings.Count(said, held) != 2 {
		t.Errorf("up -d does not say twice %q:\n%s", held, said)
	}
	for _, agent := range []string{"api", "web"} {
		f.awaitState("t/"+agent, "quarantined")
		failed := f.events(event.AgentStartFailed, "t/"+agent)
		if len(failed) != 1 || !strings.Contains(failed[0].Message, held) {
			t.Errorf("the events: %v", failed)
		}
		if out := f.do("explain", agent); !strings.Contains(out, held) {
			t.Errorf("explain: %s", out)
		}
	}
	if out := f.do("status"); strings.Count(out, held) != 2 {
		t.Errorf("status: %s", out)
	}
}
