package spec

import (
	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/supervisor"
)

// checkAide checks what an agent runs: its command or, in its place, an
// Aidefile.
func (a *assembly) checkAide(i int, g *Agent) {
	if g.Aide == nil {
		a.checkCommand(i, g.Command, "command")
		return
	}
	if len(g.Command) > 0 {
		a.problem(i, []string{"command"}, "remove one of the two", "a command and an %s, expected one of them",
			aidefile.FileName)
	}
	a.checkCommand(i, g.Aide.Command, "aidefile")
	if g.Terminal || g.Runtime != Proc || g.Pool != nil {
		a.problem(i, []string{"aidefile"}, "", "an agent of an %s in a terminal, in tmux or in a "+
			"pool, expected a plain one", aidefile.FileName)
	}
	g.Notify = true // its runs say what they do
}

// checkAideParent checks the supervisor of an agent of an Aidefile: its runs
// come and go, which must restart no other agent.
func (a *assembly) checkAideParent(i int, n *Node) {
	if g := a.decls[i].Agent; g != nil && g.Aide != nil &&
		(n.Strategy == supervisor.OneForAll || n.Strategy == supervisor.RestForOne) {
		a.problem(i, []string{"aidefile"}, "put it below another supervisor",
			"an agent of an %s in a supervisor with the strategy %v, expected one_for_one: each run of it "+
				"would restart the others", aidefile.FileName, n.Strategy)
	}
}
