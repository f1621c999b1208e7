package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/fakeagent"
)

// Programs that run a command where the fakes are not found: in a container, on another computer, as another user,
// or from a package.
const leaves = "bun bunx chroot docker doas flatpak firejail kubectl lxc machinectl nerdctl nix nix-shell node npm " +
	"npx nsenter pipx pkexec pnpm podman runuser ssh su sudo systemd-run toolbox uv uvx vagrant wsl yarn"

// Command lines of language models that have no fake.
const unfaked = "aider amp auggie cn crush cursor-agent droid goose kimi kiro-cli llm mods ollama plandex qwen vibe"

// Programs that start another one, which they find in the same PATH. Those that agentcli looks through are here for
// the texts of shells.
const passes = "env exec nice nohup timeout stdbuf setsid ionice taskset chrt time flock script unbuffer chronic " +
	"xargs parallel tini dumb-init watch strace command if then else do while until"

// shells run the text after -c.
const shells = "ash bash dash fish ksh mksh sh zsh"

// Command returns a command with a fake in place of the command line that it starts, and which that is. A command
// that starts none, such as a script, is unchanged, unless it would start one that it does not find in PATH.
func (s *Sandbox) Command(argv []string) ([]string, agentcli.CLI, error) {
	before, cli, arguments := agentcli.Split(argv)
	switch cli {
	case agentcli.Plain:
		text, err := s.plain(argv)
		return text, agentcli.Plain, err
	case agentcli.ACP:
		if agentcli.Vendor(argv) != agentcli.Claude {
			return nil, cli, fmt.Errorf("%s speaks the Agent Client Protocol, for which there is a fake of "+
				"claude-agent-acp only", quote(argv))
		}
	}
	return slices.Concat(before, []string{s.fake(cli)}, arguments), cli, nil
}

// plain returns a command whose program is not a known command line.
func (s *Sandbox) plain(argv []string) ([]string, error) {
	for i, word := range argv {
		base, rest := filepath.Base(word), argv[i+1:]
		switch {
		case isOne(base, passes): // the program comes after it
			if what := mentions(rest, true); what != "" {
				return nil, uncertain(argv, what, base)
			}
			continue
		case i > 0 && isAside(word):
			continue
		case isUnfaked(word):
			return nil, noFake(argv, base)
		case isOne(base, leaves):
			if what := mentions(rest, false); what != "" {
				return nil, uncertain(argv, what, base)
			}
		case isOne(base, shells):
			return s.shell(argv, i)
		}
		break // what follows are arguments
	}
	return argv, nil
}

// isUnfaked reports whether a program is a command line without a fake. One of the project may have such a name.
func isUnfaked(program string) bool {
	return isOne(filepath.Base(program), unfaked) && !strings.HasPrefix(program, ".")
}

func noFake(argv []string, program string) error {
	return fmt.Errorf("%s starts %s, which has no fake; there are fakes of %s", quote(argv), program, names())
}

func uncertain(argv []string, what, by string) error {
	return fmt.Errorf("%s starts %s by %s, where it cannot be replaced for certain; start it directly, or from a "+
		"script that finds it in PATH", quote(argv), what, by)
}

// isAside reports whether a word is an option, an assignment or a number: the program may come after it.
func isAside(word string) bool {
	return strings.HasPrefix(word, "-") || strings.Contains(word, "=") || word != "" && word[0] >= '0' && word[0] <= '9'
}

// shell changes the text of a shell. It finds names without a path in PATH; those with a path are replaced where a
// program begins.
func (s *Sandbox) shell(argv []string, at int) ([]string, error) {
	c := slices.IndexFunc(argv[at+1:], func(w string) bool {
		return strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, "c")
	})
	if c < 0 || at+c+2 >= len(argv) {
		return argv, nil // a script
	}
	text := argv[at+c+2]
	var out strings.Builder
	begins := true // the next word is a program
	for rest := text; rest != ""; {
		word := rest[:wordEnd(rest)]
		if word == "" {
			begins = begins || strings.ContainsRune(operators, rune(rest[0]))
			out.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		rest = rest[len(word):]
		base := filepath.Base(word)
		switch {
		case !begins, isAside(word), isOne(base, passes):
		case isUnfaked(word):
			return nil, noFake(argv, base)
		case isOne(base, leaves) && mentions(strings.Fields(rest), false) != "":
			return nil, uncertain(argv, mentions(strings.Fields(rest), false), base)
		case isOne(base, shells) && mentions(strings.Fields(rest), true) != "":
			return nil, uncertain(argv, mentions(strings.Fields(rest), true), base)
		default:
			if word != base && mentions([]string{word}, true) != "" {
				word = s.fake(agentcli.CLI(base))
			}
			begins = false
		}
		out.WriteString(word)
	}
	changed := slices.Clone(argv)
	changed[at+c+2] = out.String()
	return changed, nil
}

// Characters in the text of a shell that end a word, and those of them after which a program begins.
const (
	operators = ";&|(`{!\n"
	separates = " \t\r)}<>'\"" + operators
)

// wordEnd returns the length of the word at the start of a text.
func wordEnd(text string) int {
	if end := strings.IndexAny(text, separates); end >= 0 {
		return end
	}
	return len(text)
}

// mentions returns the first word that names a command line with a fake: with pathOnly one that has a path, otherwise
// also one without, and packages.
func mentions(words []string, pathOnly bool) string {
	for _, word := range words {
		for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return strings.ContainsRune(separates, r) }) {
			_, cli, _ := agentcli.Split([]string{part})
			base := filepath.Base(part)
			if cli != agentcli.Plain && (!pathOnly || base == string(cli) && base != part) {
				return part
			}
		}
	}
	return ""
}
func isOne(word, list string) bool { return slices.Contains(strings.Fields(list), word) }

func names() string {
	var all []string
	for _, cli := range fakeagent.CLIs() {
		all = append(all, fakeagent.Program(cli))
	}
	return strings.Join(all, ", ")
}

// maxQuote bounds a command in an error, in bytes.
const maxQuote = 120

func quote(argv []string) string {
	text := strings.Join(argv, " ")
	if len(text) > maxQuote {
		text = strings.ToValidUTF8(text[:maxQuote], "") + "..."
	}
	return fmt.Sprintf("the command %q", text)
}
