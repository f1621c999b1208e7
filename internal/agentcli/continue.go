package agentcli

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/lazyregexp"
)

// sessionID matches the IDs of sessions that are passed as arguments. None looks like an option.
var sessionID = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// Continue returns a command that continues a session of a command line, with the prompt of argv. It returns false if
// argv is not a command whose session can be continued, such as one that chooses its session itself. The options are
// inserted in front of all others, or behind all others for codex, so that the prompt stays what it is.
func Continue(cli CLI, argv []string, session string) ([]string, bool) {
	found, arguments := detect(argv)
	if found.name != cli || !sessionID().MatchString(session) {
		return nil, false
	}
	at, options := 0, []string{"--resume", session}
	switch cli {
	case Claude:
		if !has(arguments, "-p", "--print") || has(arguments, "-c", "--continue", "-r", "--resume", "--session-id",
			"--fork-session", "--from-pr", "--teleport", "--no-session-persistence", "-w", "--worktree", "--cloud",
			"--bg", "--background") {
			return nil, false
		}
	case Codex:
		if at = codexPrompt(arguments); at < 0 {
			return nil, false
		}
		options[0] = "resume"
	case Gemini:
		if has(arguments, "-r", "--resume", "--session-id", "--session-file", "-i", "--prompt-interactive", "-w",
			"--worktree") {
			return nil, false
		}
	case Opencode:
		if len(arguments) == 0 || arguments[0] != "run" || has(arguments, "-c", "--continue", "-s", "--session",
			"--fork", "-i", "--interactive", "--attach", "--command") {
			return nil, false
		}
		at, options[0] = 1, "--session"
	case Copilot:
		if has(arguments, "-r", "--resume", "--continue", "--session-id", "--connect", "-i", "--interactive") {
			return nil, false
		}
		options = []string{"--resume=" + session}
	default:
		return nil, false
	}
	return slices.Insert(slices.Clone(argv), len(argv)-len(arguments)+at, options...), true
}

// has reports whether one of the options is among arguments, alone or with a value.
func has(arguments []string, options ...string) bool {
	for _, a := range arguments {
		if a == "--" {
			return false
		}
		name, _, _ := strings.Cut(a, "=")
		if slices.Contains(options, name) {
			return true
		}
	}
	return false
}

// Options of codex exec. Those that are also of codex exec resume may follow the prompt.
const (
	codexValues = "-c --config --enable --disable -m --model --local-provider -p --profile -s --sandbox -C --cd " +
		"--add-dir --thread-source --cyber-access-program --output-schema --color -o --output-last-message "
	codexFlags = "--strict-config --oss --approve-for-me --dangerously-bypass-approvals-and-sandbox " +
		"--dangerously-bypass-hook-trust --skip-git-repo-check --trust --ignore-user-config --ignore-rules --json "
	codexNotOfResume = "--oss --local-provider -p --profile -s --sandbox --approve-for-me -C --cd --add-dir --color "
)

// codexPrompt returns the index of the prompt of codex exec, or where it would be; -1 if it cannot be told apart from
// the value of an option.
func codexPrompt(arguments []string) int {
	command, behind := -1, -1
	for i := 0; i < len(arguments); i++ {
		a := arguments[i]
		switch {
		case a == "--":
			if command < 0 {
				return -1
			}
			if behind < 0 {
				behind = i
			}
			return behind
		case strings.HasPrefix(a, "-") && a != "-":
			name, _, joined := strings.Cut(a, "=")
			value := inList(codexValues, name)
			if !value && !inList(codexFlags, a) || behind >= 0 && inList(codexNotOfResume, name) {
				return -1
			}
			if value && !joined {
				i++
			}
		case command < 0:
			if a != "exec" && a != "e" {
				return -1
			}
			command = i
		case behind < 0:
			if a == "resume" || a == "review" || a == "help" {
				return -1
			}
			behind = i
		}
	}
	if behind < 0 {
		behind = len(arguments)
	}
	if command < 0 {
		return -1
	}
	return behind
}

func inList(list, word string) bool { return slices.Contains(strings.Fields(list), word) }
