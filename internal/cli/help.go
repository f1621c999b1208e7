package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is the width of help texts, for the narrowest common terminal.
const helpWidth = 80

// helpText returns the output of --help: description, usage, commands and flags.
func helpText(cmd *cobra.Command) string {
	var b strings.Builder
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	fmt.Fprintf(&b, "%s\n\nUsage:\n", fillLines(about, helpWidth))
	if runsAlone(cmd) {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAliases:\n  %s\n", cmd.NameAndAliases())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	for _, g := range commandGroups(cmd) {
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for _, sub := range g.commands {
			fmt.Fprintf(&b, "  %-*s  %s\n", cmd.Commands()[0].NamePadding(), sub.Name(), sub.Short)
		}
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", cmd.LocalFlags().FlagUsagesWrapped(helpWidth))
	}
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\nGlobal flags:\n%s", cmd.InheritedFlags().FlagUsagesWrapped(helpWidth))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nMore on a command: %s COMMAND --help\n", cmd.CommandPath())
	}
	return b.String()
}

// commandGroup is a heading of the command list with its commands.
type commandGroup struct {
	title    string
	commands []*cobra.Command
}

// commandGroups returns the visible commands below cmd: those of the root in groups, others under
// one heading.
func commandGroups(cmd *cobra.Command) (all []commandGroup) {
	if !cmd.HasAvailableSubCommands() {
		return nil
	}
	if cmd.HasParent() {
		one := commandGroup{title: "Commands"}
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				one.commands = append(one.commands, sub)
			}
		}
		return []commandGroup{one}
	}
	named := make(map[string]*cobra.Command)
	for _, sub := range cmd.Commands() {
		named[sub.Name()] = sub
	}
	for _, g := range groups() {
		next := commandGroup{title: g.title}
		for _, c := range g.commands {
			if sub := named[strings.Fields(c.names)[0]]; sub != nil && !sub.Hidden {
				next.commands = append(next.commands, sub)
			}
		}
		if len(next.commands) > 0 {
			all = append(all, next)
		}
	}
	return all
}

// fillLines wraps paragraphs to a width. Lines that begin with a space stay as they are.
func fillLines(text string, width int) string {
	var b strings.Builder
	column := 0 // 0 at the start of a line
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == ' ' {
			if column > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(line + "\n")
			column = 0
			continue
		}
		for word := range strings.FieldsSeq(line) {
			n := utf8.RuneCountInString(word)
			switch {
			case column > 0 && column+1+n > width:
				b.WriteByte('\n')
				column = 0
			case column > 0:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += n
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
