package spec

import "github.com/coppice-dev/coppice/internal/aide"

// checkAide checks what an agent runs: its command or, in its place, an
// Aidefile.
func (a *assembly) checkAide(i int, g *Agent) {
	if g.Aide == nil {
		a.checkCommand(i, g.Command, "command")
		return
	}
	if len(g.Command) > 0 {
		a.problem(i, []string{"command"}, "remove one of the two", "a command beside an %s, expected one of them", aide.FileName)
	}
	a.checkCommand(i, g.Aide.Command, "aidefile")
	if g.Terminal || g.Runtime != Proc || g.Pool != nil {
		a.problem(i, []string{"aidefile"}, "", "an agent of an %s in a terminal, in tmux or in a pool, expected a plain one", aide.FileName)
	}
	g.Notify = true // its runs say what they do
}
