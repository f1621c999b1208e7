package look

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/output"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/timespan"
)

func NewLogs(s *command.Streams) *cobra.Command {
	r := command.NewRemote(s)
	var times bool
	var since string
	var q output.Query
	cmd := &cobra.Command{
		Use:   "logs [PATH...]",
		Short: "Show the output of agents",
		Long: `Show the last lines of the output of agents, running or not, in order of time. A
supervisor means all agents below it; without PATH, all agents are shown. With -f new lines
follow until Ctrl-C, also from agents that start later; no line is missed or repeated when an
agent or the daemon restarts. Without -f, agents that were removed are shown, too, for a
week, such as instances that a pool needs no longer.

With several agents, each line begins with the agent's path. Where an agent was
restarted, a line says how it ended: --- PATH: incarnation 3 ended ... ---.
--json has the number of the incarnation in each line instead.`,
		Example: `  coppice logs -f
  coppice logs backend web -n 20
  coppice logs --since 10m --grep 'error|panic' -t`,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Paths = args
			if q.Lines < 0 {
				return command.Usagef("--lines is %d, expected a number from 0 up", q.Lines)
			}
			if (since != "" || q.Grep != "") && !cmd.Flags().Changed("lines") {
				q.Lines = -1
			}
			var err error
			if q.Since, err = parseSince(since, time.Now()); err != nil {
				return command.UsageError(err)
			}
			if err := checkPattern(q.Grep); err != nil {
				return command.Usagef("--grep: %w", err)
			}
			return r.Look(func(ctx context.Context, c *api.Client) error {
				p, err := newLogPrinter(ctx, c, s, q)
				if err != nil {
					return err
				}
				p.times = times
				out := json.NewEncoder(terminal.InertWriter{W: s.Out})
				out.SetEscapeHTML(false)
				for line, err := range output.Logs(ctx, c, q) {
					switch {
					case err != nil:
						return err
					case !s.JSON:
						err = p.print(line)
					case line.Between == nil && !line.Live:
						line.Position = ""
						err = out.Encode(line)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
		ValidArgsFunction: r.CompletePath(true),
	}
	r.LongFlags(cmd)
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "print new lines until Ctrl-C")
	cmd.Flags().IntVarP(&q.Lines, "lines", "n", 100,
		"how many of the last lines of each agent; all with --since or --grep")
	cmd.Flags().StringVar(&since, "since", "",
		"only lines since a `TIME` such as 10m or 2026-01-02T15:04:05Z")
	cmd.Flags().StringVar(&q.Grep, "grep", "", "only lines that match a `REGEXP` (RE2)")
	cmd.Flags().BoolVarP(&times, "timestamps", "t", false, "begin each line with its time")
	s.JSONFlag(cmd, "one object a line")
	return cmd
}

// parseSince parses a time, or a duration before now.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, ok := timespan.At(text, now); ok {
		return at, nil
	}
	return time.Time{}, fmt.Errorf(
		"--since is %.100q, expected how long ago, such as 10m, or a time such as 2026-01-02T15:04:05Z", text)
}

// checkPattern returns an error with the column if a regular expression is invalid.
func checkPattern(pattern string) error {
	_, err := regexp.Compile(pattern)
	wrong, ok := errors.AsType[*syntax.Error](err)
	if !ok {
		return err
	}
	at := strings.Index(pattern, wrong.Expr)
	if wrong.Expr == "" || at < 0 {
		return fmt.Errorf("%.200q: %v", pattern, wrong.Code)
	}
	return fmt.Errorf("%.200q: column %d: %v: %.100q", pattern, len([]rune(pattern[:at]))+1, wrong.Code, wrong.Expr)
}

// logPrinter prints lines of output for people.
type logPrinter struct {
	out    io.Writer
	tty    bool
	paint  terminal.Paint
	times  bool
	follow bool
	live   bool              // past lines are done; new ones follow
	prefix bool              // lines begin with the path
	width  int               // width of the prefix
	colour map[string]string // colours of agents
	ends   map[string]string // separators to print only if more output follows
	begun  map[string]bool   // agents that have printed output
}

// maxPrefix bounds the width to which prefixes are aligned.
const maxPrefix = 40

// logColours are the colours of prefixes, in turn.
var logColours = [...]string{"36", "33", "32", "35", "34", "96", "93", "92", "95", "94"}

func newLogPrinter(ctx context.Context, c *api.Client, s *command.Streams, q output.Query) (*logPrinter, error) {
	_, tty := terminal.Size(s.Out)
	p := &logPrinter{
		out: s.Out, tty: tty, paint: terminal.NewPaint(tty), follow: q.Follow,
		colour: make(map[string]string), ends: make(map[string]string), begun: make(map[string]bool),
	}
	paths := q.Paths
	if len(paths) == 0 {
		paths = []string{""}
	}
	agents := 0
	for _, path := range paths {
		nodes, err := status.List.Call(ctx, c, status.ListRequest{Path: path})
		if errors.Is(err, api.ErrNotFound) && !q.Follow { // it may be that of a removed agent
			p.prefix = p.prefix || len(paths) > 1
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			if n.Kind == "agent" {
				agents++
				p.colour[n.Path] = logColours[len(p.colour)%len(logColours)]
				p.width = max(p.width, min(maxPrefix, ansi.StringWidth(plaintext.Line(n.Path))))
			}
		}
		p.prefix = p.prefix || len(paths) > 1 || len(nodes) != 1 || agents != 1
	}
	return p, nil
}

func (p *logPrinter) print(l output.Line) error {
	if l.Live {
		p.live = true
		return nil
	}
	var b strings.Builder
	if end, ok := p.ends[l.Path]; ok {
		delete(p.ends, l.Path)
		b.WriteString(end)
	}
	if l.Between != nil {
		text := p.paint.Dim(separatorLine(l, time.Now())) + "\n"
		switch {
		case p.live, p.begun[l.Path] && (p.follow || l.Between.Began != 0):
			b.WriteString(text)
		case p.begun[l.Path]:
			p.ends[l.Path] = text
		}
		_, err := io.WriteString(p.out, b.String())
		return err
	}
	p.begun[l.Path] = true
	if p.times {
		at := fmt.Sprintf("%-29s", "-") // the time is unknown
		if !l.Time.IsZero() {
			at = l.Time.Local().Format("2006-01-02T15:04:05.000Z07:00")
		}
		b.WriteString(p.paint.Dim(at) + " ")
	}
	if p.prefix {
		path := plaintext.Line(l.Path)
		p.width = max(p.width, min(maxPrefix, ansi.StringWidth(path)))
		fill := strings.Repeat(" ", max(0, p.width-ansi.StringWidth(path)))
		if _, ok := p.colour[l.Path]; !ok {
			p.colour[l.Path] = logColours[len(p.colour)%len(logColours)]
		}
		b.WriteString(p.paint.SGR(p.colour[l.Path], path) + fill + " " + p.paint.Dim("|") + " ")
	}
	text := plaintext.Line
	if p.tty {
		text = proc.OnScreen // terminals do not show overwritten text
	}
	b.WriteString(text(l.Line) + "\n")
	_, err := io.WriteString(p.out, b.String())
	return err
}

// separatorLine separates the output of two incarnations.
func separatorLine(l output.Line, now time.Time) string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return " " + terminal.Clock(t, now)
	}
	var parts []string
	if b := l.Between; b.Ended != 0 {
		text := fmt.Sprintf("incarnation %d ended%s", b.Ended, at(b.EndedAt))
		if b.Exit != "" {
			text += ": " + plaintext.Line(strings.ReplaceAll(b.Exit, "\n", " "))
		}
		parts = append(parts, text)
	}
	if l.Between.Began != 0 {
		parts = append(parts, fmt.Sprintf("incarnation %d started%s", l.Between.Began, at(l.Time)))
	}
	return fmt.Sprintf("--- %s: %s ---", plaintext.Line(l.Path), strings.Join(parts, "; "))
}
