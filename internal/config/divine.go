package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Divine is the command line of an agent that a program asks.
type Divine struct {
	// Command is the argument vector; nil if a server is asked instead. The prompt
	// replaces PromptArgument in it, or is the standard input.
	Command []string
	// Format is what it writes to its standard output.
	Format DivineFormat
	// Timeout is how long an answer may take.
	Timeout time.Duration
}

// PromptArgument stands for the prompt in Divine.Command.
const PromptArgument = "{prompt}"

// DivineFormat is what a command writes.
type DivineFormat uint8

const (
	PlainText DivineFormat = iota // the answer, and nothing else
	Claude                        // claude -p --output-format json
	Codex                         // codex exec --json
	Gemini                        // gemini --output-format json
)

var divineFormats = [...]string{PlainText: "text", Claude: "claude", Codex: "codex", Gemini: "gemini"}

func (d DivineFormat) String() string {
	if int(d) < len(divineFormats) {
		return divineFormats[d]
	}
	return "invalid(" + strconv.Itoa(int(d)) + ")"
}

// ParseDivineFormat is the inverse of String.
func ParseDivineFormat(text string) (DivineFormat, error) {
	for d, name := range divineFormats {
		if name == text {
			return DivineFormat(d), nil
		}
	}
	return 0, fmt.Errorf("unknown format %q", text)
}

func divineTable() table[Divine] {
	return table[Divine]{
		header: "[divine]",
		doc: "An agent on the command line that answers `divine`, each time by a process of its own, in the " +
			"directory of the project and with the environment of the program. Without this table it is the server " +
			"that `SAGE_API_KEY`, `SAGE_LLM_URL` and `SAGE_MODEL` name; `SAGE_API_KEY=mock` goes before both.",
		example: `[divine]
command = ["claude", "-p", "--output-format", "json"]
format = "claude"
timeout = "2m"
`,
		keys: []key[Divine]{
			{row{name: "command", typ: "array of strings", def: required, doc: "the program and its arguments; no " +
				"shell is in between. The prompt takes the place of `{prompt}`, and is the standard " +
				"input if that is nowhere", also: []string{"cmd", "argv", "cli", "run"}},
				func(r *reader, v *value, into *Divine) {
					const expected = "an array with the program and its arguments"
					words, ok := r.list(v, expected)
					switch {
					case !ok:
					case len(words) == 0 || words[0] == "":
						r.fail(v.at, v, "", "command is empty, expected %s", expected)
					case strings.Contains(words[0], PromptArgument):
						r.fail(v.at, v, "write it as an argument", "command begins with the prompt, expected a program")
					case strings.ContainsRune(strings.Join(words, ""), 0):
						r.fail(v.at, v, "", "command contains a zero byte, which no program can be given")
					default:
						into.Command = words
					}
				}},
			{row{name: "format", typ: "text, claude, codex, gemini", def: "text",
				doc: "what it writes to its standard output: the answer alone, or what this agent writes as JSON, " +
					"which says whether there is an answer at all", also: []string{"output", "output_format"}},
				word(ParseDivineFormat, func(d *Divine) *DivineFormat { return &d.Format })},
			{row{name: "timeout", typ: "duration", def: "5m", doc: "how long one answer may take",
				also: []string{"timeout_ms", "timeout_seconds"}},
				func(r *reader, v *value, into *Divine) {
					if d, ok := r.duration(v); ok {
						into.Timeout = d
					}
				}},
		},
	}
}
