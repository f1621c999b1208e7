package top

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/coppice-dev/coppice/internal/cli/look"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
)

// topAction is an action on a node.
type topAction struct {
	action control.Action
	path   string
}

// suspend asks whether to suspend the selected node, or resumes one that is suspended or paused.
func (m *topModel) suspend() tea.Cmd {
	if n, ok := m.node(); ok && (n.State == status.StateSuspended || n.State == "paused") {
		return m.act(topAction{control.Resume, n.Path})
	}
	m.pending = &topAction{control.Suspend, m.selected}
	return nil
}

func (m *topModel) attach() tea.Cmd {
	n, ok := m.node()
	if !ok {
		return nil
	}
	if err := look.Attachable(n); err != nil {
		return m.showNote(err.Error())
	}
	return m.fleet.attach(n.Path, func(err error) tea.Msg {
		if err != nil {
			return noteMsg(err.Error())
		}
		return noteMsg("")
	})
}

func (m *topModel) act(a topAction) tea.Cmd {
	m.keepNote(fmt.Sprintf("%s %s …", a.action, a.path))
	return func() tea.Msg {
		if err := m.fleet.act(a.path, a.action); err != nil {
			return noteMsg(oneLine(err))
		}
		return noteMsg(fmt.Sprintf("%s %s: done", a.action, a.path))
	}
}

// agentsBelow counts the agents at and below a path.
func agentsBelow(nodes []status.Node, path string) (count int) {
	for _, n := range nodes {
		if n.Kind == "agent" && (n.Path == path || strings.HasPrefix(n.Path, path+"/")) {
			count++
		}
	}
	return count
}

// confirmation asks to confirm an action, in at most width columns. The number of affected agents
// is always visible.
func confirmation(action control.Action, nodes []status.Node, path string, width int) string {
	i := slices.IndexFunc(nodes, func(n status.Node) bool { return n.Path == path })
	count := agentsBelow(nodes, path)
	all := plaintext.Plural(count, "agent")
	before, after := string(action)+" ", "? y/N"
	switch {
	case i == 0:
		if count > 1 {
			all = "all " + all
		}
		return before + all + after
	case i > 0 && nodes[i].Kind != "agent":
		after = ", " + all + after
	}
	return before + terminal.Shorten(path, max(8, width-len(before)-len(after))) + after
}
