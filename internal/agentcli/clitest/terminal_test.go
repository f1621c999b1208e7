package clitest

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/session"
)

// What opencode uses in a terminal, where its output is a screen, is in its database.
func TestTerminal(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	m.answers(t, "tool")
	h := NewHome(t, Installed(t, "../../../.cache/clis"), Opencode, m.listener.URL("@", tag))
	h.more = []string{"TERM=xterm-256color"}
	f := session.Follow(session.Call{CLI: agentcli.Opencode, Env: h.environ(), Dir: h.work, Began: time.Now()})
	cmd := exec.Command(h.set.Program(Opencode), "--prompt", prompt)
	cmd.Dir, cmd.Env = h.work, h.environ()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(io.Discard, terminal)
	}()
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
		terminal.Close()
		<-read
	}()
	looks := time.NewTicker(100 * time.Millisecond)
	defer looks.Stop()
	limit := time.After(waitLimit())
	for f.Report().Turns < 2 {
		select {
		case <-looks.C:
			f.Poll(agentcli.Report{})
		case <-limit:
			t.Fatalf("it takes too long until its database has the answer: %+v\n%+v", f.Report(), m.Ledger(tag))
		}
	}
	served, side, _ := m.served(0)
	if r := f.Report(); r.Tokens() != served-side || r.Succeeded != 1 || r.Working != 0 || r.Session == "" {
		t.Errorf("the server has served %d tokens, %d on the side: %+v", served, side, r)
	}
}
