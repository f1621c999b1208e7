// Package setting reads settings that several kinds of files share: commands, restart
// limits, restart policies and the default name of a project.
package setting

import (
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/toml"
)

// Shell is the shell that runs commands that are not plain words.
const Shell = "/bin/sh"

// Argv returns the argument vector of a command that is written as one string. Plain words
// need no shell. Anything else runs in a shell. A line that is certainly a single command
// gets an exec, which makes the agent the command itself instead of a waiting shell.
func Argv(line string) []string {
	words := strings.Fields(line)
	first := words[0]
	program := IsPlain(strings.TrimPrefix(first, "~")) && first[0] != '-' && !ownWord(first)
	if program && IsPlain(line) {
		return words
	}
	if program && !strings.ContainsAny(strings.ReplaceAll(line, ">&", ""), ";&|()`\n\r") {
		line = "exec " + strings.TrimLeft(line, " \t") // a trailing blank may be escaped
	}
	return []string{Shell, "-c", line}
}

// IsPlain reports whether text consists of plain words for the shell.
func IsPlain(text string) bool { return strings.IndexFunc(text, isSpecial) < 0 }

// isSpecial reports whether r may be more than a part of a word for the shell.
func isSpecial(r rune) bool {
	switch {
	case r >= 0x80, r == ' ', r == '\t', '0' <= r && r <= '9', 'A' <= r && r <= 'Z', 'a' <= r && r <= 'z':
		return false
	}
	return !strings.ContainsRune("_@%+=:,./-", r)
}

// ownWord reports whether the shell itself handles a command that begins with word: keywords,
// assignments, builtins without a program of the same name, and builtins that behave
// differently from the program, such as echo with backslashes.
func ownWord(word string) bool {
	return strings.Contains(word, "=") || slices.Contains(strings.Fields(`
		! { } case do done elif else esac fi for function if in select then time until while
		. : alias bg break cd command continue eval exec exit export fg getopts hash jobs local
		read readonly return set shift source times trap type ulimit umask unalias unset wait
		[ echo kill printf pwd test`), word)
}

// ReadCommand reads a command: a string, or an array with one string per word.
func ReadCommand(r *toml.Reader, v *toml.Value) ([]string, bool) {
	const expected = "a string or an array of strings"
	if v.Kind == toml.KindArray {
		words, ok := r.List(v, expected)
		if ok && len(words) == 0 {
			r.Fail(v, "", "%s is empty, expected a program and its arguments", r.Label(v))
			return nil, false
		}
		return words, ok
	}
	line, ok := r.Text(v, expected)
	if !ok {
		return nil, false
	}
	return Argv(line), true
}

// CommandKey returns the read function of a key whose value is a command.
func CommandKey[T any](field func(*T) *[]string) func(*toml.Reader, *toml.Value, *T) {
	return func(r *toml.Reader, v *toml.Value, into *T) {
		if argv, ok := ReadCommand(r, v); ok {
			*field(into) = argv
		}
	}
}
