package gascity

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// inWorkDir returns a command that creates the working directory of its agent and enters it.
// The agent itself starts in the city, where pre_start finds its files.
func (c *city) inWorkDir(command *toml.Value, p location) *toml.Value {
	if p.own == nil || p.work == "" || command.Kind != toml.KindString || strings.TrimSpace(command.Text) == "" {
		return command
	}
	parts := strings.Split(toml.Absolute(c.dir, p.work), instance)
	for i, part := range parts {
		if part != "" {
			parts[i] = shellQuote(part)
		}
	}
	dir := strings.Join(parts, `"`+instance+`"`)
	line := "exec " + command.Text
	if words := setting.Argv(command.Text); words[0] == setting.Shell && !setting.IsPlain(command.Text) {
		line = words[2] // the script, which may be more than one command
	}
	return toml.Derive(command, toml.KindString, "command", "mkdir -p "+dir+" && cd "+dir+" || exit\n"+line)
}

// command returns the command of an agent: its own start_command, or else that of its
// provider, of the workspace, or of the provider of the workspace.
func (c *city) command(from *toml.Value, p location) *toml.Value {
	start, provider := from.Field("start_command"), from.Field("provider")
	if start == nil && provider == nil && c.workspace != nil {
		if start = c.workspace.Field("start_command"); start == nil {
			provider = c.workspace.Field("provider")
		}
	}
	var text string
	args := from.Field("args")
	origin := start
	switch {
	case start != nil && start.Kind != toml.KindString:
		return toml.CopyAs(start, "command")
	case start != nil:
		text = c.packCommand(c.expand(start, p), from)
	case provider != nil:
		origin = provider
		name, ok := c.r.Text(provider, "the name of a provider")
		if !ok {
			return toml.Derive(from, toml.KindString, "command", "true") // has failed already
		}
		text = name
		if declared := c.provider(name); declared != nil {
			if base, ok := strings.CutPrefix(toml.TextOf(declared, "base"), "builtin:"); ok {
				text = base
			}
			if command := cmp.Or(declared.Field("command"), declared.Field("start_command")); command != nil {
				text, origin = toml.TextOf(declared, "command"), command
				if text == "" {
					return toml.CopyAs(command, "command")
				}
			}
			args = cmp.Or(args, declared.Field("args"))
		}
	default:
		c.r.Fail(from, "write start_command, or provider, here or in [workspace]",
			"agent %s has nothing to run, expected a command", spec.Quote(c.cityName(from)))
		return toml.Derive(from, toml.KindString, "command", "true")
	}
	if args != nil && c.r.Want(args, toml.KindArray, "an array of strings") {
		for _, arg := range args.Elements {
			if c.r.Want(arg, toml.KindString, "a string") {
				text += " " + shellQuote(arg.Text)
			}
		}
	}
	return toml.Derive(origin, toml.KindString, "command", text)
}

// homeOf returns the directory of the pack of an agent, or of the city.
func (c *city) homeOf(agent *toml.Value) string { return cmp.Or(c.origins[agent].dir, c.dir) }

// packCommand makes the program of a command absolute if it is in the pack of the agent. The
// agent may run in any directory.
func (c *city) packCommand(command string, agent *toml.Value) string {
	first, rest, _ := strings.Cut(strings.TrimLeft(command, " \t"), " ")
	home := c.homeOf(agent)
	if home == c.dir || !strings.Contains(first, "/") || filepath.IsAbs(first) || !setting.IsPlain(first) ||
		!exists(filepath.Join(home, first)) {
		return command
	}
	return strings.TrimRight(shellQuote(filepath.Join(home, first))+" "+rest, " ")
}

// provider returns a table of [providers], or nil.
func (c *city) provider(name string) *toml.Value {
	if p := below(c.providers, name); p != nil && p.Kind == toml.KindTable {
		return p
	}
	return nil
}

// shellQuote quotes text as one word for the shell.
func shellQuote(text string) string {
	if text != "" && !strings.ContainsAny(text, " \t") && setting.IsPlain(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
