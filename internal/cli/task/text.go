package task

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/timespan"
)

// plainArguments rejects arguments and flags that are not UTF-8; JSON would change them silently.
func plainArguments(cmd *cobra.Command, args []string) (err error) {
	check := func(what, text string) {
		if err == nil && !utf8.ValidString(text) {
			err = command.Usagef("%s is not UTF-8: %.80q", what, text)
		}
	}
	for _, arg := range args {
		check("an argument", arg)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) { check("--"+f.Name, f.Value.String()) })
	return err
}

// textFlags are the flags that name the text of a task or comment.
type textFlags struct{ text, file string }

func (f *textFlags) add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVarP(&f.text, "message", "m", "", "the `TEXT` "+what+"; - is standard input")
	cmd.Flags().StringVar(&f.file, "text-file", "", "the `FILE` with the text "+what+"; - is standard input")
	cmd.MarkFlagsMutuallyExclusive("message", "text-file")
	cmd.MarkFlagFilename("text-file")
}

// given reports whether one of the flags was given.
func (f *textFlags) given(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("message") || cmd.Flags().Changed("text-file")
}

func (f *textFlags) read(s *command.Streams, most int, what string) (string, error) {
	switch {
	case f.text == "-" || f.file == "-":
		return s.ReadText(most, what)
	case f.file == "":
		return f.text, nil
	}
	file, err := os.Open(f.file)
	if err != nil {
		return "", command.Usagef("reading the %s: %w", what, err)
	}
	defer file.Close()
	return command.ReadText(file, f.file, most, what)
}

// notBefore parses the earliest time of a claim: a time, or a duration from now.
func notBefore(text string, now time.Time) (time.Time, error) {
	if text == "" || text == "none" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	d, err := timespan.Parse(text)
	if err != nil {
		return time.Time{}, command.Usagef("--not-before is %.40q, expected a time such as "+
			"2026-01-31T12:00:00Z, or how long from now, such as 30m or 2d", text)
	}
	return now.Add(d), nil
}

// warnUnclaimable warns if no agent can claim a task, most often because of a typing error. It is
// only a warning, because the agent may be added later, and people claim tasks too.
func warnUnclaimable(s *command.Streams, w worker, t task.Task) {
	if w.agent || t.Pool == "" && t.Assignee == "" {
		return
	}
	nodes, err := command.Call(w.ask, status.List, status.ListRequest{})
	if err != nil {
		return // the task was created all the same
	}
	var names, paths []string
	for _, n := range nodes {
		if _, within, ok := strings.Cut(n.Path, "/"); ok && (n.Kind == "agent" || n.Pool != nil) {
			names = append(names, within, path.Base(within))
			paths = append(paths, n.Path)
		}
	}
	meant := func(name string) string {
		if near := suggest.Nearest(name, names); near != "" {
			return fmt.Sprintf("; did you mean %q?", near)
		}
		return ""
	}
	switch {
	case t.Assignee != "":
		if hint := meant(t.Assignee); hint != "" && !slices.Contains(paths, t.Assignee) {
			fmt.Fprintf(s.Err, "coppice: %s is assigned to %s, which is not an agent of this project%s\n",
				plaintext.Line(t.ID), plaintext.Line(t.Assignee), plaintext.Line(hint))
		}
	case !slices.Contains(names, t.Pool):
		fmt.Fprintf(s.Err, "coppice: %s waits for the pool %q, which has no agents%s\n", plaintext.Line(t.ID),
			t.Pool, plaintext.Line(meant(t.Pool)))
	}
}
