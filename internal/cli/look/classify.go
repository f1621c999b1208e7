package look

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// classifyFlags are the flags of classify.
type classifyFlags struct {
	cli, stderr, session string
	code                 int
}

func NewClassify(s *command.Streams) *cobra.Command {
	var f classifyFlags
	cmd := &cobra.Command{
		Use:   "classify FILE",
		Short: "Classify the recorded output of a model's CLI",
		Long: `Say how a run of a language model's command line has ended, from its recorded output: the
outcome, the obstacle, what follows, and the rule and evidence that decided. FILE is the
standard output of claude, codex, gemini, opencode, copilot or a command that calls them; "-" is
standard input.

If FILE ends in .out, these files next to it are read, too: .err (standard error), .code (the
exit code, negative for a signal) and .session.jsonl (the file that the command line keeps of its
session). Flags override them.`,
		Example: `  claude -p --output-format stream-json --verbose -- "fix it" >run.out 2>run.err
  coppice classify run.out
  coppice classify --cli codex --exit-code 1 run.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("expected one FILE, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			end, err := f.read(cmd, args[0], s.In)
			if err != nil {
				return err
			}
			c := classification{end.Record()}
			return s.Print(c, func(p terminal.Paint, width int) []string {
				return terminal.WrapAll(c.lines(p, time.Now()), 10, width)
			})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.cli, "cli", "", "claude, codex, gemini, opencode, copilot or plain (default: recognised)")
	flags.IntVar(&f.code, "exit-code", 0, "its exit code; -9 if SIGKILL ended it")
	flags.StringVar(&f.stderr, "stderr", "", "the file of its standard error")
	flags.StringVar(&f.session, "session", "", "the file that it keeps of its session")
	s.JSONFlag(cmd, "one object")
	return cmd
}

// maxRecording bounds each file, in bytes.
const maxRecording = 1 << 30

// read reads the files of a recorded run.
func (f *classifyFlags) read(cmd *cobra.Command, path string, in io.Reader) (agentcli.End, error) {
	end := agentcli.End{Now: time.Now(), Local: time.Local}
	if info, err := os.Stat(path); err == nil && path != "-" {
		end.Now = info.ModTime() // messages have times of the day
	}
	if f.cli != "" {
		var err error
		if end.CLI, err = agentcli.Parse(f.cli, agentcli.CLIs()); err != nil {
			return end, command.UsageError(err)
		}
	}
	base, hasParts := strings.CutSuffix(path, ".out")
	parts := []struct {
		source agentcli.Source
		path   string
		may    bool // be missing
		into   *agentcli.Report
	}{
		{agentcli.FromStream, path, false, &end.Output},
		{agentcli.FromSession, f.session, false, &end.Session},
		{agentcli.FromStderr, f.stderr, false, &end.Stderr},
	}
	for i, suffix := range []string{"", ".session.jsonl", ".err"} {
		if p := &parts[i]; p.path == "" && hasParts {
			p.path, p.may = base+suffix, true
		}
	}
	for _, p := range parts {
		if p.path == "" {
			continue
		}
		cli := end.CLI
		if p.source == agentcli.FromSession && cli == "" {
			cli = end.Output.CLI // the formats of these files are not told apart
		}
		stream := agentcli.Stream{CLI: cli, Source: p.source}
		err := copyFile(&stream, p.path, in)
		if p.may && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return end, err
		}
		stream.Close()
		*p.into = stream.Report()
	}
	code, err := f.exitCode(cmd, base, hasParts)
	if err != nil {
		return end, err
	}
	switch {
	case code > 0:
		end.Code, end.Exit = code, fmt.Sprintf("exit code %d", code)
	case code < 0:
		end.Exit = fmt.Sprintf("ended by signal %d", -code)
	}
	return end, nil
}

func copyFile(to io.Writer, path string, in io.Reader) error {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	n, err := io.Copy(to, io.LimitReader(in, maxRecording))
	switch {
	case err != nil:
		return fmt.Errorf("reading %s: %w", path, err)
	case n == maxRecording:
		return fmt.Errorf("%s has more than %d bytes", path, maxRecording)
	}
	return nil
}

// exitCode returns the exit code of the flag, or of the file next to the output.
func (f *classifyFlags) exitCode(cmd *cobra.Command, base string, hasParts bool) (int, error) {
	if cmd.Flags().Changed("exit-code") || !hasParts {
		return f.code, nil
	}
	text, err := os.ReadFile(base + ".code")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s.code:1:1: expected an exit code, such as 1, or -9 for a signal", base)
	}
	return code, nil
}

// classification is the JSON output of classify.
type classification struct{ agentcli.Record }

func (c classification) lines(p terminal.Paint, now time.Time) []string {
	head := p.Bold(string(c.Kind))
	if c.Obstacle != "" {
		head += ", " + strings.ReplaceAll(string(c.Obstacle), "_", " ")
	}
	if c.Reason != "" {
		head += ": " + plaintext.Line(c.Reason)
	}
	lines := []string{head}
	field := func(label, text string) {
		if text != "" {
			lines = append(lines, p.Dim(fmt.Sprintf("%-10s", label))+plaintext.Line(text))
		}
	}
	field("rule", c.Rule)
	if !c.Reset.IsZero() {
		text := terminal.Clock(c.Reset, now)
		if left := c.Reset.Sub(now); left > 0 {
			text += ", in " + timespan.Short(left)
		}
		field("reset", text+" (reported in its "+string(c.ResetFrom)+")")
	}
	field("next", c.nextText())
	field("run", c.runText())
	field("tokens", c.tokenText())
	if c.Calls > 0 {
		field("tools", fmt.Sprintf("%s, %d succeeded, %d denied", plaintext.Plural(c.Calls, "call"), c.Succeeded,
			c.Denied))
	}
	if c.Retries > 0 {
		field("retries", strconv.Itoa(c.Retries))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Unknown)) {
		field("unknown", fmt.Sprintf("%s (%s)", name, plaintext.Plural(c.Unknown[name], "object")))
	}
	return lines
}

func (c classification) nextText() string {
	text := map[agentcli.Next]string{
		agentcli.Resume: "the session can be resumed", agentcli.Fresh: "a new session",
		agentcli.NoFurther: "nothing until a person has acted",
	}[c.Next]
	if c.Crash {
		text += "; it counts as a failure of the agent"
	}
	return text
}

// runText describes what has run.
func (c classification) runText() string {
	text := string(c.CLI)
	for _, part := range []struct{ label, text string }{
		{" ", c.Version}, {", model ", c.Model}, {", account: ", strings.ReplaceAll(string(c.Account), "_", " ")},
		{", session ", c.Session},
	} {
		if part.text != "" {
			text += part.label + part.text
		}
	}
	return text
}

func (c classification) tokenText() string {
	if c.Tokens == nil {
		return "unknown"
	}
	u := c.Usage.Total()
	text := fmt.Sprintf("%d (input %d, written to a cache %d, output %d; read from a cache %d), from its %s",
		*c.Tokens, u.Input, u.CacheWrite, u.Output, u.CacheRead, c.UsageFrom)
	if u.Dollars > 0 {
		text += fmt.Sprintf(", $%.4f by its own estimate", u.Dollars)
	}
	if c.Cumulative {
		text += "; with earlier runs of the session"
	}
	return text
}
