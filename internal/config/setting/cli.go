package setting

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// CLI returns the key cli, the name of one of some command lines of a language model.
func CLI[T any](known []agentcli.CLI, byDefault, doc string, field func(*T) *agentcli.CLI) toml.Key[T] {
	return toml.Key[T]{Name: "cli", Type: CLIType(known), Default: byDefault, Doc: doc,
		Also: []string{"agent_cli", "vendor", "harness", "llm"}, Read: ReadCLI(known, field)}
}

// CLIType is the type of the key cli.
func CLIType(known []agentcli.CLI) string {
	var names []string
	for _, c := range known {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}

// ReadCLI returns the read function of the name of one of some command lines of a language model.
func ReadCLI[T any](known []agentcli.CLI, field func(*T) *agentcli.CLI) func(*toml.Reader, *toml.Value, *T) {
	return func(r *toml.Reader, v *toml.Value, into *T) {
		if !r.Want(v, toml.KindString, "a string, the name of a command line") {
			return
		}
		cli, err := agentcli.Parse(v.Text, known)
		if err != nil {
			hint := ""
			switch found := agentcli.Detect(strings.Fields(v.Text)); {
			case v.Text == string(agentcli.ACP):
				hint = "an agent that speaks the Agent Client Protocol needs an Aidefile, see docs/acp.md"
			case slices.Contains(known, found) && found != agentcli.Plain:
				hint = "write " + spec.Quote(string(found))
			}
			r.Fail(v, hint, "%s: %v", r.Label(v), err)
			return
		}
		*field(into) = cli
	}
}
