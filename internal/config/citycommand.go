package config

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/spec"
)

// inPlace is a command that makes the directory that its agent runs in. The
// agent itself has that of the city, where pre_start finds what it needs, too.
func (c *city) inPlace(command *value, p place) *value {
	if p.own == nil || p.work == "" || command.kind != isString || strings.TrimSpace(command.text) == "" {
		return command
	}
	parts := strings.Split(under(c.dir, p.work), instance)
	for i, part := range parts {
		if part != "" {
			parts[i] = shellQuote(part)
		}
	}
	dir := strings.Join(parts, `"`+instance+`"`)
	line := "exec " + command.text
	if words := argv(command.text); words[0] == shell && !isPlain(command.text) {
		line = words[2] // what the shell is told to do, which may be more than one command
	}
	return made(command, isString, "command", "mkdir -p "+dir+" && cd "+dir+" || exit\n"+line)
}

// command is what an agent runs: its own start_command, that of its provider,
// that of the workspace, that of the provider of the workspace.
func (c *city) command(from *value, p place) *value {
	start, provider := from.byName["start_command"], from.byName["provider"]
	if start == nil && provider == nil && c.workspace != nil {
		if start = c.workspace.byName["start_command"]; start == nil {
			provider = c.workspace.byName["provider"]
		}
	}
	var text string
	args := from.byName["args"]
	origin := start
	switch {
	case start != nil && start.kind != isString:
		return copyOf(start, "command")
	case start != nil:
		text = c.ofPack(c.expand(start, p), from)
	case provider != nil:
		origin = provider
		name, ok := c.r.text(provider, "the name of a provider")
		if !ok {
			return made(from, isString, "command", "true") // has failed already
		}
		text = name
		if declared := c.provider(name); declared != nil {
			if base, ok := strings.CutPrefix(textOf(declared, "base"), "builtin:"); ok {
				text = base
			}
			command := declared.byName["command"]
			if command == nil {
				command = declared.byName["start_command"]
			}
			if command != nil {
				text, origin = textOf(declared, "command"), command
				if text == "" {
					return copyOf(command, "command")
				}
			}
			if args == nil {
				args = declared.byName["args"]
			}
		}
	default:
		c.r.fail(from.at, from, "write start_command, or provider, here or in [workspace]",
			"agent %s has nothing to run, expected a command", spec.Quote(c.identity(from)))
		return made(from, isString, "command", "true")
	}
	if args != nil && c.r.want(args, isArray, "an array of strings") {
		for _, arg := range args.elements {
			if c.r.want(arg, isString, "a string") {
				text += " " + shellQuote(arg.text)
			}
		}
	}
	return made(origin, isString, "command", text)
}

// homeOf is the directory of the pack that an agent comes from, or of the city.
func (c *city) homeOf(agent *value) string { return cmp.Or(c.homes[agent].dir, c.dir) }

// ofPack is a command that may begin with the path of a program in the pack of
// its agent: such a program is meant, wherever the agent runs.
func (c *city) ofPack(command string, agent *value) string {
	first, rest, _ := strings.Cut(strings.TrimLeft(command, " \t"), " ")
	home := c.homeOf(agent)
	if home == c.dir || !strings.Contains(first, "/") || filepath.IsAbs(first) || !isPlain(first) ||
		!exists(filepath.Join(home, first)) {
		return command
	}
	return strings.TrimRight(shellQuote(filepath.Join(home, first))+" "+rest, " ")
}

// provider is a table of [providers].
func (c *city) provider(name string) *value {
	if c.providers == nil {
		return nil
	}
	if p := c.providers.byName[name]; p != nil && p.kind == isTable {
		return p
	}
	return nil
}

// shellQuote makes one word of text for the shell.
func shellQuote(text string) string {
	if text != "" && !strings.ContainsAny(text, " \t") && isPlain(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
