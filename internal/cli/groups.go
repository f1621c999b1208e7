package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/act"
	"github.com/coppice-dev/coppice/internal/cli/agent"
	"github.com/coppice-dev/coppice/internal/cli/belief"
	"github.com/coppice-dev/coppice/internal/cli/cluster"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/look"
	"github.com/coppice-dev/coppice/internal/cli/mail"
	"github.com/coppice-dev/coppice/internal/cli/order"
	"github.com/coppice-dev/coppice/internal/cli/pipeline"
	"github.com/coppice-dev/coppice/internal/cli/run"
	"github.com/coppice-dev/coppice/internal/cli/sage"
	"github.com/coppice-dev/coppice/internal/cli/task"
	"github.com/coppice-dev/coppice/internal/cli/top"
	"github.com/coppice-dev/coppice/internal/cli/write"
)

// group is a heading of the list of commands, with the commands below it in the order of help.
// The commands of a group without a title are hidden.
type group struct {
	title    string
	commands []constructor
}

// constructor builds a command below the root. cobra builds those with a nil function.
type constructor struct {
	names string // the name, then the aliases
	build func(*command.Streams) *cobra.Command
}

// groups returns the constructors of all commands below the root.
func groups() []group {
	return []group{
		{"Run", []constructor{
			{"run", run.NewRun}, {"up", run.NewUp}, {"down", run.NewDown}, {"reload", run.NewReload},
			{"patrol", run.NewPatrol}, {"install", run.NewInstall}, {"backup", run.NewBackup},
			{"restore", run.NewRestore}, {"store", run.NewStore}, {"cluster", cluster.New}, {"node", cluster.NewNode},
			{"gc", run.NewGC}, {"demo", run.NewDemo},
		}},
		{"Look", []constructor{
			{"status", look.NewStatus}, {"ps ls", look.NewPs}, {"tree", look.NewTree}, {"top", top.New},
			{"logs", look.NewLogs}, {"attach", look.NewAttach}, {"events", look.NewEvents},
			{"explain", look.NewExplain}, {"inbox", mail.NewInbox}, {"quota", look.NewQuota},
			{"cost", look.NewCost}, {"budget", look.NewBudget}, {"notify", look.NewNotify},
			{"report", look.NewReport}, {"web", look.NewWeb},
			{"classify", look.NewClassify}, {"check-change", look.NewCheckChange},
			{"doctor", look.NewDoctor},
		}},
		{"Act", []constructor{
			{"start", act.NewStart}, {"stop", act.NewStop}, {"restart", act.NewRestart},
			{"suspend", act.NewSuspend}, {"resume", act.NewResume}, {"reset", act.NewReset},
			{"drain", act.NewDrain}, {"fire", act.NewFire}, {"answer", mail.NewAnswer}, {"mail", mail.New},
			{"task", task.New}, {"pipeline", pipeline.New}, {"order", order.New},
			{"belief", belief.New},
		}},
		{"Write", []constructor{
			{"init", write.NewInit}, {"add", write.NewAdd}, {"validate", write.NewValidate},
			{"config", write.NewConfig}, {"schema", write.NewSchema}, {"patch", write.NewPatch},
		}},
		{"For agents", []constructor{{"agent", agent.New}, {"mcp", agent.NewMCP}}},
		{"Sage", []constructor{{"sage", sage.New}}},
		{"Other", []constructor{{"help", nil}, {"man", newMan}, {"completion", nil}, {"version", newVersion}}},
		{"", []constructor{ // former names of the sage commands
			{"new", hidden(sage.NewNew)}, {"check", hidden(sage.NewCheck)}, {"test", hidden(sage.NewTest)},
			{"fmt", hidden(sage.NewFmt)}, {"lsp", hidden(sage.NewLSP)},
		}},
	}
}

func hidden(build func(*command.Streams) *cobra.Command) func(*command.Streams) *cobra.Command {
	return func(s *command.Streams) *cobra.Command {
		cmd := build(s)
		cmd.Hidden = true
		return cmd
	}
}

// constructorsFor returns the constructor of the command that args begin with, after the flags that
// frontFile leaves. If there is none, it returns all: help, completion and suggestions need them.
func constructorsFor(args []string) (all []constructor) {
	for len(args) > 0 && strings.HasPrefix(args[0], "--file=") {
		args = args[1:]
	}
	for _, g := range groups() {
		for _, c := range g.commands {
			switch {
			case c.build == nil:
			case len(args) > 0 && slices.Contains(strings.Fields(c.names), args[0]):
				return []constructor{c}
			default:
				all = append(all, c)
			}
		}
	}
	return all
}
