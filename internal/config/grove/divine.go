package grove

import (
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Divine is the command line of an agent that answers a program.
type Divine struct {
	// Command is the argument vector; nil if a server answers instead. The prompt replaces
	// PromptArgument, or is the standard input.
	Command []string
	// Format is the format of its standard output.
	Format DivineFormat
	// Timeout limits one answer.
	Timeout time.Duration
}

// PromptArgument stands for the prompt in Divine.Command.
const PromptArgument = "{prompt}"

// DivineFormat is the format of the output of a command.
type DivineFormat uint8

const (
	PlainText DivineFormat = iota // only the answer
	Claude                        // claude -p --output-format json
	Codex                         // codex exec --json
	Gemini                        // gemini --output-format json
	Opencode                      // opencode run --format json
	Copilot                       // copilot --output-format json
)

func (d DivineFormat) String() string {
	return spec.EnumName(d, "text", "claude", "codex", "gemini", "opencode", "copilot")
}

func divineTable() toml.Table[Divine] {
	return toml.Table[Divine]{
		Header: "[divine]",
		Doc: "A command-line agent that answers `divine`, each time in a process of its own, in the directory of " +
			"the project and with the environment of the program. Without this table, the server that " +
			"`SAGE_API_KEY`, `SAGE_LLM_URL` and `SAGE_MODEL` name answers; `SAGE_API_KEY=mock` takes precedence " +
			"over both.",
		Example: `[divine]
command = ["claude", "-p", "--output-format", "json"]
format = "claude"
timeout = "2m"
`,
		Keys: []toml.Key[Divine]{
			{Name: "command", Type: "array of strings", Default: toml.Required,
				Doc: "the program and its arguments, which run without a shell. The prompt replaces `{prompt}`; " +
					"if there is no `{prompt}`, it is the standard input",
				Also: []string{"cmd", "argv", "cli", "run"},
				Read: func(r *toml.Reader, v *toml.Value, into *Divine) {
					const expected = "an array with the program and its arguments"
					words, ok := r.List(v, expected)
					switch {
					case !ok:
					case len(words) == 0 || words[0] == "":
						r.Fail(v, "", "command is empty, expected %s", expected)
					case strings.Contains(words[0], PromptArgument):
						r.Fail(v, "write it as an argument", "command begins with the prompt, expected a program")
					case strings.ContainsRune(strings.Join(words, ""), 0):
						r.Fail(v, "", "command contains a zero byte, which no program can be given")
					default:
						into.Command = words
					}
				}},
			{Name: "format", Type: "text, claude, codex, gemini, opencode, copilot", Default: "text",
				Doc: "what it writes to its standard output: the answer alone, or the JSON of that agent, which " +
					"also reports whether there is an answer", Also: []string{"output", "output_format"},
				Read: toml.Name(func(d *Divine) *DivineFormat { return &d.Format })},
			{Name: "timeout", Type: "duration", Default: "5m", Doc: "how long one answer may take",
				Also: []string{"timeout_ms", "timeout_seconds"},
				Read: toml.Duration(func(d *Divine) *time.Duration { return &d.Timeout })},
		},
	}
}
