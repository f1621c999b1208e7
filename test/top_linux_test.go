package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// With 300 agents on 80x24, top shows what needs a person, says why, and takes the answer.
func TestTopLargeFleet(t *testing.T) {
	t.Parallel()
	const groups, each = 10, 30
	var toml strings.Builder
	for g := range groups {
		names := make([]string, each)
		for i := range names {
			names[i] = fmt.Sprintf("g%d-%02d", g, i)
			fmt.Fprintf(&toml, "[[agent]]\nname = %q\ncommand = \"sleep 1000\"\n\n", names[i])
		}
		fmt.Fprintf(&toml, "[[supervisor]]\nname = \"g%d\"\nchildren = [\"%s\"]\n\n", g, strings.Join(names, `", "`))
	}
	f := newFleet(t, toml.String(),
		agentTOML("broken", `exit 7`, `max_restarts = 2`, `on_limit = "quarantine"`),
		agentTOML("news", `coppice agent mail send people -s news -m 'all is well'; exec sleep 1000`),
		asksTOML("asks", `'Deploy now?' --options yes,no`))
	f.try("up", "-d") // which fails, because one agent does
	f.awaitQuestion(1)
	f.awaitState("t/broken", "quarantined")
	eventually(t, "the mail", func() bool { return f.status().Inbox.Mail == 1 })
	s := newScreen(t, f.dir, 80, 24, "coppice top")
	s.await(`\At  needs you: 1 question, 1 quarantined, 1 message  302 running  up (?s:.*)^> ├─ broken +quarantined`)
	s.tmux("send-keys", "d")
	s.await(`^── t/broken: explain ─+\nt/broken has been quarantined for (?s:.*)^why +\S`)
	s.tmux("send-keys", "End")
	s.await(`^> └─ asks(?s:.*)^next +it waits for an answer to q-1: Deploy now\?`)
	s.tmux("send-keys", "i")
	s.await(`\A── inbox: 1 question, 1 message ─+\n(?s:.*)^> q-1  t/asks(?s:.*)^  2  no$(?s:.*)^Esc back`)
	s.tmux("send-keys", "2")
	s.await(`^answer q-1: 2  +is no; Enter sends it, Esc drops it$`)
	s.tmux("send-keys", "Enter")
	s.await(`^> m-1  t/news +\S+ +news(?s:.*)^q-1 of t/asks is answered: no$`)
	if d := cmp.Diff("no\nexit code 0\n", f.awaitFile("answer.1")); d != "" {
		t.Error(d)
	}
	s.tmux("send-keys", "Enter")
	s.await(`^all is well$`)
	s.tmux("send-keys", "Escape")
	s.await(`^> └─ asks`)
	s.tmux("send-keys", "l", "-")
	s.await(`\At  needs you: 1 quarantined  302 running (?s:.*)^  ├─ g9 \(one_.*\) \+30 +running`)
	s.tmux("send-keys", "+", "/", "g7-29")
	s.await(`^> g7/g7-29 +running(?s:.*)^/g7-29 +1 of 314; `)
	s.tmux("send-keys", "Enter", "Escape")
	s.await(`^> │  └─ g7-29 +running`)
	s.tmux("send-keys", "o", "o", "g") // what needs a person first
	s.await(`^  NAME +STATE▼(?s:.*)^> broken +quarantined`)
	for _, size := range [][2]int{{40, 10}, {20, 4}} {
		s.tmux("resize-window", "-x", fmt.Sprint(size[0]), "-y", fmt.Sprint(size[1]))
		s.await(`\At  (?s:.*)^> b(?s:.*)^\? help.*…$`)
	}
	s.tmux("resize-window", "-x", "19", "-y", "3")
	s.await(`\Atoo small; top\nneeds 20x4$`)
	s.tmux("send-keys", "q")
	s.wantEnd(0)
}
