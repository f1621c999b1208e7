package dispatch

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/job"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

var (
	kills   = flag.Int("orders.kills", 8, "how often TestKilled kills the daemon")
	perKill = flag.Int("orders.runs", 6, "and after how many runs each")
)

const daemonArg = "orders-daemon"

// daemonMain is a daemon that runs orders in a directory, and prints "fired" for each run until it is
// killed. With "last" it fires nothing new, and exits when all runs have ended.
func daemonMain(args []string) int {
	dir, last := args[0], len(args) > 1
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "state.db"))
	for late := time.Now().Add(waitTimeout); errors.Is(err, sqlite.ErrInUse) && time.Now().Before(late); {
		time.Sleep(10 * time.Millisecond) // what the last one was about to start has its files for a moment
		db, err = sqlite.Open(ctx, filepath.Join(dir, "state.db"))
	}
	if err != nil {
		return fail(err)
	}
	defer db.Close()
	log, err := event.Open(event.Config{Store: db})
	if err != nil {
		return fail(err)
	}
	jobs, err := job.Open(job.Options{Dir: filepath.Join(dir, "jobs"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fail(err)
	}
	defer jobs.Close()
	var all []*spec.Order
	for i := range 5 {
		o := &spec.Order{
			Name: fmt.Sprintf("o%d", i), Dir: dir, Timeout: time.Minute, Disabled: last,
			Command: []string{"/bin/sh", "-c", `echo "$COPPICE_ORDER_RUN begins" >>"$COPPICE_ORDER"; sleep 0.02; echo "$COPPICE_ORDER_RUN ends" >>"$COPPICE_ORDER"`},
			Gates:   []spec.Gate{{Kind: spec.Cooldown, Interval: 10 * time.Millisecond}},
		}
		if i == 4 {
			o.Gates = []spec.Gate{{Kind: spec.Event, On: spec.EventFilter{Types: []string{"order.completed"}, Path: "orders/o0"}}}
			o.Command[2] = `echo "$COPPICE_ORDER_RUN begins" >>"$COPPICE_ORDER"; cat >>events; echo "$COPPICE_ORDER_RUN ends" >>"$COPPICE_ORDER"`
		}
		all = append(all, o)
	}
	_, head, err := log.Last(ctx, 1, func(event.Event) bool { return true })
	if err != nil {
		return fail(err)
	}
	d, err := Open(ctx, Options{
		Store: db, Log: log, Jobs: jobs, Orders: all, History: 100_000, Logger: slog.New(slog.DiscardHandler),
		Environ: func(map[string]string) []string { return []string{"PATH=/usr/bin:/bin", runtimetest.Env()} },
	})
	if err != nil {
		return fail(err)
	}
	if last {
		for _, v := range d.List() {
			for _, r := range must(d.History(ctx, v.Order.Name, 100_000)) {
				r, err := d.Wait(ctx, r.Number)
				if err != nil {
					return fail(err)
				}
				fmt.Println("over", r.Order, ID(r.Number), strings.ReplaceAll(string(r.Status), " ", "_"))
			}
		}
		d.Close(ctx, true)
		return 0
	}
	for e, err := range log.Follow(ctx, head, event.Filter{Types: []string{"order.completed"}}) {
		if err != nil {
			return fail(err)
		}
		fmt.Println("completed", e.Path)
	}
	return 0
}

func must[T any](v T, err error) T {
	if err != nil && err != order.ErrUnknown {
		panic(err)
	}
	return v
}

// No run begins twice and none is lost, however often the daemon is killed.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	daemon := func(args ...string) (*exec.Cmd, *bufio.Scanner) {
		cmd := exec.Command(exe, append([]string{daemonArg, dir}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, bufio.NewScanner(out)
	}
	for range *kills {
		cmd, out := daemon()
		timer := time.AfterFunc(2*waitTimeout, func() { cmd.Process.Kill() })
		for seen := 0; seen < *perKill && out.Scan(); seen++ {
		}
		cmd.Process.Kill()
		timer.Stop()
		for out.Scan() { // to its end
		}
		cmd.Wait()
	}
	cmd, out := daemon("last")
	timer := time.AfterFunc(5*waitTimeout, func() { cmd.Process.Kill() })
	defer timer.Stop()
	status := make(map[string]string)
	for out.Scan() {
		f := strings.Fields(out.Text())
		status[f[1]+" "+f[2]] = f[3]
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	runs := 0
	for run, s := range status {
		order, id, _ := strings.Cut(run, " ")
		b, err := os.ReadFile(filepath.Join(dir, order))
		if err != nil {
			t.Fatal(err)
		}
		begins, ends := strings.Count(string(b), id+" begins\n"), strings.Count(string(b), id+" ends\n")
		if s != "completed" || begins != 1 || ends != 1 {
			t.Errorf("run %s of %s is %s: it began %d times and ended %d times", id, order, s, begins, ends)
		}
		runs++
	}
	for order := range strings.FieldsSeq("o0 o1 o2 o3 o4") {
		b, err := os.ReadFile(filepath.Join(dir, order))
		if err != nil {
			t.Fatal(err)
		}
		open := ""
		for line := range strings.Lines(string(b)) {
			id, what, _ := strings.Cut(strings.TrimSpace(line), " ")
			if status[order+" "+id] == "" {
				t.Errorf("run %s of %s is not on record", id, order)
			}
			if (what == "begins") != (open == "") || what == "ends" && open != id {
				t.Errorf("%s: %s while %q goes on", order, line, open)
			}
			open = ""
			if what == "begins" {
				open = id
			}
		}
	}
	once := make(map[string]bool)
	b, err := os.ReadFile(filepath.Join(dir, "events"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if once[line] {
			t.Errorf("handed over twice: %s", line)
		}
		once[line] = true
	}
	t.Logf("%d runs, %d events handed over, %d kills", runs, len(once), *kills)
	if least := *kills * *perKill / 2; runs < least {
		t.Errorf("only %d runs", runs)
	}
}
