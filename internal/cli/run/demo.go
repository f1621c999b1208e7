package run

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/cli/foreground"
	"github.com/coppice-dev/coppice/internal/cli/show"
	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/controller"
	"github.com/coppice-dev/coppice/internal/daemon"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/fakeagent"
	"github.com/coppice-dev/coppice/internal/fakeagent/sandbox"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

//go:embed demo
var demoFiles embed.FS

// chaosPlan is what the fakes of the demonstration play. The limit is short, so that people need not wait.
const chaosPlan = "writer-1:quota+9s,writer-2:quota+9s,flaky:crash,reviewer:hang,server:orphan,scout:liar," +
	"pace=500ms,seed=1"

func NewDemo(s *command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what Coppice does with agents in trouble",
		Long: `Run a demonstration. It needs no other program and no network, works in a
temporary directory, and removes that.`,
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "chaos",
		Short: "Run six fake agents into trouble (12 s)",
		Long: `Run six fake agents through a usage limit, a crash loop, a process that stays
after its result, a process that is left behind, and a success that is none.
The events show what Coppice does about each; a table at the end sums it up.

The exit code is 0 when everything was shown, and 1 otherwise. To try your own
file like this, see coppice run --fake.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error { return demoChaos(s) },
	})
	return cmd
}

// demoChaos runs the demonstration.
func demoChaos(s *command.Streams) (err error) {
	dir, err := os.MkdirTemp("", "coppice-demo-")
	if err != nil {
		return err
	}
	defer func() {
		if e := os.RemoveAll(dir); err == nil {
			err = e
		}
	}()
	files, err := fs.Sub(demoFiles, "demo/chaos")
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		return err
	}
	plan, err := fakeagent.Parse(chaosPlan)
	if err != nil {
		return err
	}
	return inSandbox(s, &plan, func(in *sandbox.Sandbox) error {
		stop, ctx := foreground.NewStopper()
		_, tty := terminal.Size(s.Out)
		v := &chaosView{
			PlainView: foreground.NewPlainView(s.Out, tty, stop),
			in:        in,
			starts:    map[string]int{},
			paint:     terminal.NewPaint(tty),
			ends:      map[string][]supervisor.Exit{},
		}
		err := runFleet(ctx, s, stop, v, in, daemon.ServeOptions{
			Config: filepath.Join(dir, "coppice.toml"), Logger: slog.New(slog.NewTextHandler(s.Err,
				&slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if missing := v.missing(); err == nil && len(missing) > 0 {
			err = fmt.Errorf("the demonstration has not shown: %s", strings.Join(missing, "; "))
		}
		return err
	})
}

// chaosView shows the events of the demonstration, and collects them for its table. The output of agents is JSON,
// and is not shown.
type chaosView struct {
	*foreground.PlainView
	paint terminal.Paint
	in    *sandbox.Sandbox

	mu             sync.Mutex
	starts         map[string]int // by the name of an agent
	ends           map[string][]supervisor.Exit
	took           time.Duration // of the run whose process stayed
	gaveUp         bool
	parked, opened bool // the quota
}

func (v *chaosView) Event(e supervisor.Event) {
	v.PlainView.Event(e)
	v.mu.Lock()
	defer v.mu.Unlock()
	_, name, _ := strings.Cut(e.Header().Path(), "/")
	switch e := e.(type) {
	case supervisor.ChildStarted:
		v.starts[name]++
	case supervisor.ChildExited:
		v.ends[name] = append(v.ends[name], e.Exit)
		if name == "reviewer" {
			v.took = e.Uptime
		}
	case supervisor.LimitReached:
		v.gaveUp = v.gaveUp || name == "flaky"
	}
}

func (v *chaosView) Output(string, uint64, proc.Line) {}

// Watch shows the events of the quota.
func (v *chaosView) Watch(ctx context.Context, c *controller.Controller) {
	for e, err := range c.Events(ctx, event.Query{Filter: event.Filter{Types: []string{"quota.*"}}, Follow: true}) {
		if err != nil {
			return
		}
		e.Path = "chaos"
		v.WriteLine(show.OrderLine(e, v.paint))
		v.mu.Lock()
		v.parked = v.parked || e.Type == event.QuotaParked
		v.opened = v.opened || e.Type == event.QuotaOpened
		v.mu.Unlock()
	}
}

// row is a line of the table.
type row struct {
	happened, did string
	shown         bool
}

func (v *chaosView) rows() []row {
	v.mu.Lock()
	defer v.mu.Unlock()
	last := func(name string) supervisor.Exit {
		if all := v.ends[name]; len(all) > 0 {
			return all[len(all)-1]
		}
		return supervisor.Exit{Kind: supervisor.Failure}
	}
	waited := v.parked && v.opened && last("writer-1").Clean() && last("writer-2").Clean()
	reason := "it is a failure"
	if e := last("scout").Err; e != nil {
		reason = e.Error()
	}
	left := v.in.Left()
	killed := len(left) > 0 && !slices.ContainsFunc(left, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	return []row{
		{"the plan of claude was used up", "both writers waited for the reset; none had failed", waited},
		{"flaky crashed again and again", fmt.Sprintf("%d starts with growing delays, then it gave up",
			v.starts["flaky"]), v.gaveUp && v.starts["flaky"] > 1},
		{"reviewer stayed after its result", fmt.Sprintf("ended it after %v: a success", v.took.Truncate(time.Second)),
			last("reviewer").Clean() && v.starts["reviewer"] == 1},
		{
			"server left a process behind",
			fmt.Sprintf("killed that, too: %s", pids(left)),
			killed && last("server").Clean(),
		},
		{"scout reported success, exit code 0", "did not believe it: " + reason, !last("scout").Clean() &&
			v.starts["scout"] == 1},
	}
}

func pids(all []int) string {
	var words []string
	for _, pid := range all {
		words = append(words, fmt.Sprintf("process %d", pid))
	}
	return strings.Join(words, ", ")
}

// missing returns what the demonstration should have shown.
func (v *chaosView) missing() (all []string) {
	for _, r := range v.rows() {
		if !r.shown {
			all = append(all, r.happened)
		}
	}
	return all
}

// Close shows the table.
func (v *chaosView) Close([]string) error {
	var cells [][]string
	for _, r := range v.rows() {
		if !r.shown {
			r.did = "not shown"
		}
		cells = append(cells, []string{r.happened, r.did})
	}
	v.WriteLine("")
	for _, line := range terminal.Table([]string{"WHAT HAPPENED", "WHAT COPPICE DID"}, cells, 0,
		terminal.BoldHeader(v.paint)) {
		v.WriteLine(line)
	}
	return v.LineWriter.Close()
}
