package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/offline"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/transfer"
)

// NewStore returns the commands for stores.
func NewStore(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Copy the state into another kind of store",
		Long: `Work on the store, which has all state of the project: beliefs, tasks, mail, counters
and events.`,
	}
	cmd.AddCommand(newStoreCopy(s))
	return cmd
}

// copyReport is the answer of coppice store copy.
type copyReport struct {
	From string `json:"from"`
	To   string `json:"to"`
	transfer.Report
}

func newStoreCopy(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy all state into an empty store",
		Long: `Copy all state into an empty store, to move a project, and compare both afterwards. A
store is one of:

  sqlite                               the database of the project
  sqlite:FILE                          another file, which TO may create
  etcd://HOST[:PORT][,...][/PREFIX]    keys in etcd; etcds:// with TLS

Numbers of events and tasks go on in the copy. FROM is not changed. Stop the daemon and
its agents first, with coppice down. A copy that fails leaves TO empty.`,
		Example: `  coppice down
  coppice store copy sqlite sqlite:/srv/fleet/state.db`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%s takes two arguments, the store to copy and the one to write", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions([]string{"sqlite", "sqlite:", "etcd://"},
			cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := command.FindConfig(file)
			if err == nil {
				err = command.OnlyPeople(path, "coppice store copy")
			}
			if err != nil {
				return err
			}
			ctx, stop := command.UntilSignal(context.Background())
			defer stop()
			p := progressLine{out: s.Err}
			_, p.tty = terminal.Size(s.Err)
			copied, err := offline.CopyStore(ctx, offline.CopyOptions{
				File: path, From: args[0], To: args[1], Progress: p.show,
				Logger: slog.New(slog.NewTextHandler(s.Err, nil)),
			})
			p.clear()
			if err != nil {
				return copyError(ctx, err)
			}
			report := copyReport{copied.From.String(), copied.To.String(), copied.Report}
			return s.Print(report, func(terminal.Paint, int) []string { return copyLines(copied) })
		},
	}
	command.ConfigFlag(cmd, &file)
	s.JSONFlag(cmd, "JSON")
	return cmd
}

// copyError adds the exit code and what to do next.
func copyError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, ok := errors.AsType[*project.LocationError](err); ok || errors.Is(err, offline.ErrSameStore) {
		return command.UsageError(err)
	}
	if errors.Is(err, store.ErrNotEmpty) {
		err = fmt.Errorf("%w; name a new file or prefix, as nothing is overwritten", err)
	}
	return coded(err)
}

// copyLines tells what was copied, and what to do next.
func copyLines(c offline.Copied) []string {
	lines := []string{
		fmt.Sprintf("%s records (%s) copied and verified", plaintext.Thousands(int64(c.Records)),
			humanize.IBytes(uint64(c.Bytes))),
		"from " + plaintext.Line(c.From.String()),
		"to   " + plaintext.Line(c.To.String()),
	}
	if n := len(c.Damaged); n > 0 {
		count := plaintext.Plural(n, "record")
		if n >= transfer.MaxDamaged {
			count = fmt.Sprintf("%d or more records", n)
		}
		lines = append(lines, "", count+" damaged and left out:")
		for _, key := range c.Damaged {
			lines = append(lines, "  "+plaintext.Line(key))
		}
	}
	if setting := c.To.Setting(); len(setting) > 0 {
		lines = append(lines, "", "to use the copy, write into coppice.toml:")
		for _, line := range setting {
			lines = append(lines, "  "+plaintext.Line(line))
		}
		return append(lines, "and start the daemon: coppice up -d")
	}
	if c.To.InEtcd() {
		return append(lines, "", "use the copy on this machine, as the first node of a fleet: coppice cluster init "+
			"--store '"+plaintext.Line(c.To.String())+"'")
	}
	return append(lines, "", "start the daemon: coppice up -d")
}

// progressLine shows the progress of a copy in the last line of a terminal.
type progressLine struct {
	out   io.Writer
	tty   bool
	total int // records that were copied
	last  time.Time
}

// progressPause is the shortest time between two changes of the line.
const progressPause = 100 * time.Millisecond

func (p *progressLine) show(now transfer.Progress) {
	if now.Stage == transfer.Copying {
		p.total = now.Records
	}
	if !p.tty || time.Since(p.last) < progressPause {
		return
	}
	p.last = time.Now()
	text := fmt.Sprintf("copying: %s records, %s", plaintext.Thousands(int64(now.Records)),
		humanize.IBytes(uint64(now.Bytes)))
	if now.Stage != transfer.Copying {
		half := 0
		if now.Stage == transfer.ReadingCopy {
			half = p.total
		}
		text = fmt.Sprintf("verifying: %d %%", (now.Records+half)*100/max(1, 2*p.total))
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", text)
}

// clear removes the line.
func (p *progressLine) clear() {
	if p.tty && !p.last.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
