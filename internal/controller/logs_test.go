package controller

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/output"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// The last line of an agent's output is shown while its end is not written, after all
// that is: the log of a terminal has it, that of other output does not.
func TestLogsShowUnfinishedLines(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "t"), 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.logs = dir
		write := func(name, text string) {
			w := logfile.NewWriter(filepath.Join(dir, "t", name))
			w.Begin(1)
			w.Append([]byte(text))
		}
		write("ask", "hello\n")
		write("tty", "login\npassword: ")
		p := raise(t, s, memory.New(), treeOf(t, "ask", "tty", "idle"))
		defer p.close()
		ask := s.on("t/ask")
		ask.begun, s.on("t/tty").begun = "prompt> ", "password: "
		time.Sleep(time.Second)
		write("idle", "done\n")
		time.Sleep(time.Second)
		ask.active = time.Now()
		for _, test := range []struct {
			q    output.Query
			want string
		}{
			{output.Query{Paths: []string{"ask"}, Lines: 10}, "hello|prompt> "},
			{output.Query{Paths: []string{"ask"}, Lines: 1}, "prompt> "},
			{output.Query{Paths: []string{"ask"}, Lines: 0}, ""},
			{output.Query{Paths: []string{"ask"}, Lines: -1, Grep: "^prompt"}, "prompt> "},
			{output.Query{Paths: []string{"ask"}, Lines: -1, Grep: "hell"}, "hello"},
			{output.Query{Paths: []string{"ask"}, Lines: -1, Since: p.started.Add(-time.Minute)}, "hello|prompt> "},
			{output.Query{Paths: []string{"ask"}, Lines: -1, Since: time.Now().Add(time.Minute)}, ""},
			{output.Query{Paths: []string{"tty"}, Lines: 10}, "login|password: "},
			{output.Query{Lines: 10}, "hello|login|password: |done|prompt> "},
			{output.Query{Lines: 1}, "password: |done|prompt> "},
		} {
			var got []string
			for l, err := range p.output.Logs(context.Background(), test.q) {
				if err != nil {
					t.Fatal(err)
				}
				if l.Between == nil {
					got = append(got, l.Line)
				}
			}
			if got := strings.Join(got, "|"); got != test.want {
				t.Errorf("%+v: %s, want %s", test.q, got, test.want)
			}
		}
	})
}
