package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

func newMan(s *command.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages to a directory",
		Long: `Write a manual page for each command to DIR, which is created if missing: coppice.1,
coppice-run.1 and so on. man looks in the directory man1 of each directory in MANPATH.`,
		Example: `  coppice man ~/.local/share/man/man1 && man coppice-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return fmt.Errorf("%d arguments, expected one directory to write to; see %s --help", len(args),
					cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			pages := manPages(newRoot(s, nil))
			for name, text := range pages {
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(text), 0o644); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintf(s.Out, "wrote %s to %s\n", plaintext.Plural(len(pages), "page"), args[0])
			return err
		},
	}
}

// manPages returns the manual pages of a command and of the visible commands below it, by file
// name.
func manPages(cmd *cobra.Command) map[string]string {
	cmd.InitDefaultHelpFlag()
	all := map[string]string{manName(cmd) + ".1": manPage(cmd)}
	for _, sub := range cmd.Commands() {
		if sub.Hidden {
			continue
		}
		for name, text := range manPages(sub) {
			all[name] = text
		}
	}
	return all
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage returns the manual page of a command, in the macros of man(7).
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH \"%s\" \"1\" \"\" \"coppice %s\" \"Coppice\"\n",
		roff(strings.ToUpper(manName(cmd))), roff(command.Version()))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", roff(manName(cmd)), roff(cmd.Short))
	if runsAlone(cmd) {
		fmt.Fprintf(&b, "\\fB%s\\fR%s\n", roff(cmd.CommandPath()),
			roff(strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())))
	}
	if runsAlone(cmd) && cmd.HasSubCommands() {
		b.WriteString(".PP\n")
	}
	if cmd.HasSubCommands() {
		fmt.Fprintf(&b, "\\fB%s\\fR \\fICOMMAND\\fR\n", roff(cmd.CommandPath()))
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, ".PP\nAlso: %s\n", roff(strings.Join(cmd.Aliases, ", ")))
	}
	b.WriteString(".SH DESCRIPTION\n")
	if cmd.Long != "" {
		manText(&b, cmd.Long)
	} else {
		manText(&b, cmd.Short+".")
	}
	if groups := commandGroups(cmd); len(groups) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, g := range groups {
			if len(groups) > 1 {
				fmt.Fprintf(&b, ".SS %s\n", roff(g.title))
			}
			for _, sub := range g.commands {
				fmt.Fprintf(&b, ".TP\n\\fB%s\\fR(1)\n%s\n", roff(manName(sub)), roff(sub.Short))
			}
		}
	}
	if cmd.HasAvailableFlags() {
		b.WriteString(".SH OPTIONS\n")
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { manFlag(&b, f) })
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { manFlag(&b, f) })
	}
	if cmd.HasExample() {
		b.WriteString(".SH EXAMPLES\n")
		manText(&b, cmd.Example)
	}
	if cmd.HasParent() {
		fmt.Fprintf(&b, ".SH \"SEE ALSO\"\n\\fB%s\\fR(1)\n", roff(manName(cmd.Parent())))
	}
	return b.String()
}

func manFlag(b *strings.Builder, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	b.WriteString(".TP\n")
	if f.Shorthand != "" {
		fmt.Fprintf(b, "\\fB%s\\fR, ", roff("-"+f.Shorthand))
	}
	value, usage := pflag.UnquoteUsage(f)
	fmt.Fprintf(b, "\\fB%s\\fR", roff("--"+f.Name))
	if value != "" {
		fmt.Fprintf(b, " \\fI%s\\fR", roff(value))
	}
	fmt.Fprintf(b, "\n%s\n", roff(usage))
}

// manText writes paragraphs. Lines that begin with a space keep their layout.
func manText(b *strings.Builder, text string) {
	literal, begun := false, false
	end := func() {
		if literal {
			b.WriteString(".RE\n.fi\n")
		}
		literal, begun = false, false
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch indented := strings.HasPrefix(line, " "); {
		case line == "" && literal:
			b.WriteString("\\&\n")
			continue
		case line == "":
			end()
			continue
		case indented && !literal:
			end()
			b.WriteString(".PP\n.nf\n.RS 2\n")
			literal, begun = true, true
		case !indented && literal:
			end()
			fallthrough
		case !begun:
			b.WriteString(".PP\n")
			begun = true
		}
		if literal {
			line = strings.TrimPrefix(line, "  ")
		}
		b.WriteString(roff(line) + "\n")
	}
	end()
}

// roff escapes text so that it is shown literally and can be copied to a shell.
func roff(text string) string {
	text = strings.NewReplacer(
		`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`,
	).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
