package look

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/change/integrity"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// maxShown bounds the findings that are printed without --json.
const maxShown = 50

func NewCheckChange(s *command.Streams) *cobra.Command {
	var base, mode string
	var protect []string
	cmd := &cobra.Command{
		Use:   "check-change [DIR]",
		Short: "Check what was changed in a git work tree",
		Long: `Check what was changed in the git work tree at DIR (default: the current directory) since a
commit: everything committed, staged, changed or new. It is read from git, and nothing that is set
up in the repository can hide a change.

In maintenance mode at most 2 files and 150 lines may change, and no tests and nothing that decides
about checks. In evolution mode that is allowed, and listed for the person who approves it. Protected
paths may not change in either.

The exit code is 0 if the change is allowed, 1 if it is refused, and 2 if it cannot be read.`,
		Example: `  coppice check-change --base main --mode evolution --protect .github`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("expected at most one DIR")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			rules, err := change.NewRules(change.Kind(mode), protect, nil, nil)
			if err != nil {
				return command.UsageError(err)
			}
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if _, err := os.Stat(dir); err != nil {
				return command.UsageError(err)
			}
			// A signal ends the command in order, so that no temporary files stay.
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			c, err := change.Read(ctx, dir, base)
			if err != nil {
				return command.Exit(command.ExitUsage, err)
			}
			weaker, err := integrity.Check(ctx, c, rules)
			if err != nil {
				return command.Exit(command.ExitUsage, err)
			}
			checked := checkedChange{c, c.Totals(), append(change.Check(c, rules), weaker...), false}
			checked.Allowed = !change.Refused(checked.Findings)
			if err := s.Print(checked, func(p terminal.Paint, _ int) []string { return checked.lines(p) }); err != nil {
				return err
			}
			if !checked.Allowed {
				return command.Exit(command.ExitFailure, nil)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&base, "base", "HEAD", "the `COMMIT` to compare with; its id, if an agent may move references")
	flags.StringVar(&mode, "mode", string(change.Maintenance), "maintenance or evolution")
	flags.StringArrayVar(&protect, "protect", nil, "a `PATTERN` as in .gitignore that may not change (repeatable)")
	s.JSONFlag(cmd, "one object")
	return cmd
}

// checkedChange is the JSON output of check-change.
type checkedChange struct {
	*change.Change
	Totals   change.Totals    `json:"totals"`
	Findings []change.Finding `json:"findings"`
	Allowed  bool             `json:"allowed"`
}

func (c checkedChange) lines(p terminal.Paint) (lines []string) {
	for i, f := range c.Findings {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("%d more findings", len(c.Findings)-i))
			break
		}
		label := p.Bold("refused")
		if f.Review {
			label = "review "
		}
		lines = append(lines, label+"  "+string(f.Rule)+": "+f.String())
	}
	verdict := "allowed"
	if !c.Allowed {
		verdict = "refused"
	}
	summary := fmt.Sprintf("%s, %s added, %d deleted", plaintext.Plural(c.Totals.Files, "file"),
		plaintext.Plural(c.Totals.Added, "line"), c.Totals.Deleted)
	return append(lines, cmp.Or(c.TooLarge, summary)+": "+verdict)
}
