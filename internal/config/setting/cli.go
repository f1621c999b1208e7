package setting

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// CLI returns the key cli, the name of a command line of a language model.
func CLI[T any](byDefault, doc string, field func(*T) *agentcli.CLI) toml.Key[T] {
	return toml.Key[T]{Name: "cli", Type: CLIType(), Default: byDefault, Doc: doc,
		Also: []string{"agent_cli", "vendor", "harness", "llm"}, Read: ReadCLI(field)}
}

// CLIType is the type of the key cli.
func CLIType() string {
	var names []string
	for _, c := range agentcli.CLIs() {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}

// ReadCLI returns the read function of the name of a command line of a language model.
func ReadCLI[T any](field func(*T) *agentcli.CLI) func(*toml.Reader, *toml.Value, *T) {
	return func(r *toml.Reader, v *toml.Value, into *T) {
		if !r.Want(v, toml.KindString, "a string, the name of a command line") {
			return
		}
		cli, err := agentcli.Parse(v.Text, agentcli.CLIs())
		if err != nil {
			hint := ""
			if found := agentcli.Detect(strings.Fields(v.Text)); found != agentcli.Plain && found != agentcli.ACP {
				hint = "write " + spec.Quote(string(found))
			}
			r.Fail(v, hint, "%s: %v", r.Label(v), err)
			return
		}
		*field(into) = cli
	}
}
