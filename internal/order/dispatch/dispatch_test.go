package dispatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/supervisor"
)

func every(d time.Duration) spec.Gate { return spec.Gate{Kind: spec.Cooldown, Interval: d} }

func on(types ...string) spec.Gate {
	return spec.Gate{Kind: spec.Event, On: spec.EventFilter{Types: types}}
}

func TestRun(t *testing.T) {
	p := newHarness(t)
	o := p.sh("a", `echo "hello $GREETING"; echo $COPPICE_ORDER $COPPICE_ORDER_RUN $COPPICE_ORDER_ATTEMPT $SPAN; pwd; exit 3`, every(time.Hour))
	o.Env = map[string]string{"GREETING": "world"}
	p.open(o)
	r := p.runs("a", 1)[0]
	if r.Status != order.Failed || *r.Code != 3 || r.Reason != "never run" || r.By != "" || len(r.Output) != 3 ||
		r.Output[0] != "hello world" || r.Output[1] != "a r-1 1 span-of-r-1-1" || r.Error != "exit code 3" || r.StartedAt.IsZero() || r.EndedAt.Before(r.StartedAt) {
		t.Errorf("%+v", r)
	}
	events, _, err := p.log.Read(ctxOf(t), 0, event.Filter{Types: []string{"order.*"}}, 0)
	if err != nil || len(events) != 2 || events[0].Type != event.OrderFired || events[1].Type != event.OrderFailed || events[1].Path != "orders/a" ||
		events[1].Message != "order a failed: exit code 3" {
		t.Errorf("%v, %v", events, err)
	}
	var times struct {
		StartedAt time.Time `json:"started_at"`
		EndedAt   time.Time `json:"ended_at"`
	}
	if err := events[1].Decode(&times); err != nil || !times.StartedAt.Equal(r.StartedAt) ||
		!times.EndedAt.Equal(r.EndedAt) {
		t.Errorf("%+v, %v, want those of %+v", times, err, r)
	}
	if all := p.d.List(); len(all) != 1 || all[0].Last.Number != 1 || all[0].Due || !strings.HasPrefix(all[0].Why, "cooldown: ") {
		t.Errorf("%+v", all)
	}
	p.advance(time.Hour)
	if r := p.runs("a", 2)[0]; r.Number != 2 {
		t.Errorf("%+v", r)
	}
}

func TestByHand(t *testing.T) {
	p := newHarness(t)
	if err := syscall.Mkfifo(p.path("go"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := p.open(p.sh("a", "read x <go"))
	n, err := d.Run(ctxOf(t), "a", "user")
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := d.Run(ctxOf(t), "a", "user"); err != order.ErrRunning {
		t.Error(err)
	}
	if _, err := d.Run(ctxOf(t), "b", "user"); err != order.ErrUnknown {
		t.Error(err)
	}
	if err := os.WriteFile(p.path("go"), []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	r, err := d.Wait(ctxOf(t), n)
	if err != nil || r.Status != order.Completed || r.By != "user" || r.Reason != "by hand" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := d.Wait(ctxOf(t), 77); err != order.ErrUnknown {
		t.Error(err)
	}
	p.mu.Lock()
	p.held = "the project is suspended"
	p.mu.Unlock()
	if _, err := d.Run(ctxOf(t), "a", "user"); !errors.Is(err, order.ErrSuspended) {
		t.Error(err)
	}
}

// Conditions and cooldowns do not start a second run while a long one is in progress.
func TestOneAtATime(t *testing.T) {
	for name, gate := range map[string]spec.Gate{
		"condition": {Kind: spec.Condition, Check: []string{"true"}, Limit: waitTimeout, Every: time.Millisecond},
		"cooldown":  every(time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			p := newHarness(t)
			p.open(p.sh("a", "mkdir alone || { echo two; exit 1; }; for i in 1 2 3; do sleep 0.01; done; rmdir alone", gate))
			for _, r := range p.runs("a", 5) {
				if r.Status.Over() && r.Status != order.Completed {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// An event fires a command once, not at every tick.
func TestEventOnce(t *testing.T) {
	p := newHarness(t)
	d := p.open(p.sh("a", `cat >>got; echo "$COPPICE_EVENTS" >>count; echo "$COPPICE_EVENT" >>env`, on("task.closed")))
	p.log.Append(event.Event{Type: "task.closed", Path: "x/1"})
	p.log.Append(event.Event{Type: "task.created"})
	p.runs("a", 1)
	p.close(true)
	p.open(p.sh("a", `cat >>got; echo "$COPPICE_EVENTS" >>count`, on("task.closed")))
	p.advance(time.Hour)
	n, err := p.d.Run(ctxOf(t), "a", "user")
	if err != nil {
		t.Fatal(err)
	}
	p.d.Wait(ctxOf(t), n)
	if got := p.read("got"); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"x/1"`) || p.read("count") != "1\n\n" || p.read("env") != got {
		t.Errorf("%q, %q, %q", got, p.read("count"), p.read("env"))
	}
	_ = d
}

// At the timeout the whole command is killed, not only its shell.
func TestTimeout(t *testing.T) {
	p := newHarness(t)
	o := p.sh("a", "sleep 4321 & echo started; sleep 4321")
	o.Timeout = 200 * time.Millisecond
	d := p.open(o)
	n, err := d.Run(ctxOf(t), "a", "user")
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Wait(ctxOf(t), n)
	if err != nil || r.Status != order.TimedOut || r.Duration > 30*time.Second {
		t.Errorf("%+v, %v", r, err)
	}
}

// A cooldown remembers the last run even if the history does not.
func TestHistoryIsBounded(t *testing.T) {
	p := newHarness(t)
	o := p.sh("a", "echo $COPPICE_ORDER_RUN")
	d := p.open(o, p.sh("weekly", "true", every(168*time.Hour)))
	p.runs("weekly", 1)
	for range 25 {
		n, err := d.Run(ctxOf(t), "a", "user")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Wait(ctxOf(t), n); err != nil {
			t.Fatal(err)
		}
	}
	past := p.runs("a", 20)
	if len(past) != 20 || past[0].Output[0] != ID(past[0].Number) {
		t.Errorf("%d runs", len(past))
	}
	records, _, err := p.store.Snapshot(ctxOf(t), outputPrefix)
	if err != nil || len(records) != 20 {
		t.Errorf("%d outputs, %v", len(records), err)
	}
	if v, err := d.Show("a"); err != nil || v.State.Runs != 25 {
		t.Errorf("%+v, %v", v, err)
	}
	p.advance(167 * time.Hour)
	p.close(true)
	p.open(o, p.sh("weekly", "true", every(168*time.Hour)))
	if all := p.runs("weekly", 1); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	p.advance(2 * time.Hour)
	p.runs("weekly", 2)
}

func TestRetries(t *testing.T) {
	p := newHarness(t)
	o := p.sh("a", `cat >>in; echo $COPPICE_ORDER_ATTEMPT >>attempts; [ $COPPICE_ORDER_ATTEMPT -ge 3 ]`, on("task.edited"))
	o.Retries, o.Backoff = 5, supervisor.Backoff{Kind: supervisor.Fixed, Base: 10 * time.Millisecond}
	p.open(o)
	p.log.Append(event.Event{Type: "task.edited"})
	r := p.runs("a", 1)[0]
	if r.Status != order.Completed || r.Attempt != 3 || p.read("attempts") != "1\n2\n3\n" {
		t.Errorf("%+v, %q", r, p.read("attempts"))
	}
	if in := p.read("in"); strings.Count(in, `"type":"task.edited"`) != 3 { // the same to each
		t.Errorf("%q", in)
	}
	events, _, err := p.log.Read(ctxOf(t), 0, event.Filter{Types: []string{"order.*"}}, 0)
	if err != nil || len(events) != 4 || !strings.Contains(events[1].Message, "attempt 2 follows") {
		t.Errorf("%v, %v", events, err)
	}
}

func TestRetriesEnd(t *testing.T) {
	p := newHarness(t)
	o := p.sh("a", "exit 1", every(time.Hour))
	o.Retries, o.Backoff = 2, supervisor.Backoff{Kind: supervisor.Fixed, Base: time.Millisecond}
	p.open(o)
	if r := p.runs("a", 1)[0]; r.Status != order.Failed || r.Attempt != 3 {
		t.Errorf("%+v", r)
	}
}

// A run continues without a dispatcher, and the next one records its end.
func TestOutlives(t *testing.T) {
	p := newHarness(t)
	if err := syscall.Mkfifo(p.path("go"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := p.sh("a", "echo x >>ran; read x <go; echo end", every(time.Hour))
	p.open(o)
	until(t, "it has begun", func() bool { return p.read("ran") != "" })
	p.close(true)
	p.advance(2 * time.Hour)
	d := p.open(o)
	if v, err := d.Show("a"); err != nil || v.Running != 1 || v.Due {
		t.Errorf("%+v, %v", v, err)
	}
	if err := os.WriteFile(p.path("go"), []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	r := p.runs("a", 1)
	if last := r[len(r)-1]; last.Status != order.Completed || last.Output[0] != "end" {
		t.Errorf("%+v", last)
	}
	until(t, "it runs again", func() bool { return p.read("ran") == "x\nx\n" })
	if err := os.WriteFile(p.path("go"), []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	p.runs("a", 2)
}

// A run that is being started when the dispatcher ends continues, too.
func TestOutlivesItsStart(t *testing.T) {
	p := newHarness(t)
	o := p.sh("a", "echo end", every(time.Hour))
	for n := range 10 {
		p.open(o)
		p.close(true)
		p.open(o)
		if r := p.runs("a", n+1)[0]; r.Status != order.Completed {
			t.Errorf("%+v", r)
		}
		p.close(true)
		p.advance(2 * time.Hour)
	}
}

// A recorded run that was not started is started by the next dispatcher, or recorded as interrupted if
// the machine was booted since.
func TestWrittenAndNotStarted(t *testing.T) {
	for boot, want := range map[string]order.Status{"one": order.Completed, "two": order.Interrupted} {
		p := newHarness(t)
		o := p.sh("a", "echo x >>ran")
		p.open(o)
		p.close(true)
		run := order.Run{Order: "a", Status: order.Running, Attempt: 1, Reason: "test", FiredAt: time.Now(), Timeout: time.Minute, Boot: "one", Number: 1}
		value, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		put(t, p, runPrefix+"/00000000000000000001", value)
		put(t, p, runPrefix+"-last", []byte("1"))
		p.boot = boot
		p.open(o)
		r := p.runs("a", 1)[0]
		if r.Status != want || (p.read("ran") == "x\n") != (want == order.Completed) {
			t.Errorf("%s: %+v, ran %q", boot, r, p.read("ran"))
		}
	}
}

func TestCloseStopsRuns(t *testing.T) {
	p := newHarness(t)
	if err := syscall.Mkfifo(p.path("go"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := p.sh("a", "echo x >ran; read x <go", every(time.Hour))
	o.Retries = 3
	p.open(o)
	until(t, "it has begun", func() bool { return p.read("ran") != "" })
	p.close(false)
	p.open(o)
	if r := p.runs("a", 1)[0]; r.Status != order.Stopped || r.Attempt != 1 {
		t.Errorf("%+v", r)
	}
}

func TestTask(t *testing.T) {
	p := newHarness(t)
	o := &spec.Order{Name: "a", Task: &spec.OrderTask{Title: "look", Pool: "workers"}, Gates: []spec.Gate{on("task.edited")}, Timeout: time.Minute, Dir: p.dir}
	p.open(o)
	p.log.Append(event.Event{Type: "task.edited", Message: "something"})
	r := p.runs("a", 1)[0]
	if r.Status != order.Completed || r.Task != "t-r-1" || len(p.tasks) != 1 || !strings.Contains(p.tasks["r-1"].Text, "something") {
		t.Errorf("%+v, %+v", r, p.tasks)
	}
}

func TestSkipped(t *testing.T) {
	p := newHarness(t)
	schedule, err := cron.Parse("* * * * *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	p.held = "its pool is suspended"
	p.open(p.sh("a", "true", spec.Gate{Kind: spec.Cron, Schedule: schedule}))
	p.advance(time.Minute)
	until(t, "it is skipped", func() bool {
		events, _, err := p.log.Read(ctxOf(t), 0, event.Filter{Types: []string{"order.skipped"}}, 0)
		return err == nil && len(events) == 1 && strings.Contains(events[0].Message, "its pool is suspended")
	})
	if v, err := p.d.Show("a"); err != nil || v.State.Skips != 1 || v.State.Skipped != p.held {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestCheck(t *testing.T) {
	p := newHarness(t)
	gate := spec.Gate{Kind: spec.Condition, Check: []string{"/bin/sh", "-c", "echo looked; [ -e open ]; r=$?; echo x >>looks; exit $r"}, Limit: waitTimeout, Every: time.Hour}
	d := p.open(p.sh("a", "rm open; echo x >>ran", gate))
	until(t, "it was tried by itself", func() bool { return p.read("looks") != "" }) // and not again for an hour
	v, said, err := d.Check(ctxOf(t), "a")
	if err != nil || v.Due || len(said) != 1 || v.Why != "its condition does not hold" {
		t.Errorf("%+v, %q, %v", v, said, err)
	}
	if err := os.WriteFile(p.path("open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if v, _, err := d.Check(ctxOf(t), "a"); err != nil || !v.Due || v.Why != "its condition holds" {
		t.Errorf("%+v, %v", v, err)
	}
	p.advance(time.Hour)
	p.runs("a", 1)
}

// A check that exceeds its limit fails, and all of its processes are ended.
func TestCheckTimeout(t *testing.T) {
	p := newHarness(t)
	gate := spec.Gate{Kind: spec.Condition, Check: []string{"/bin/sh", "-c", "sleep 4322 & sleep 4322"}, Limit: 50 * time.Millisecond, Every: time.Hour}
	d := p.open(p.sh("a", "true", gate))
	if v, _, err := d.Check(ctxOf(t), "a"); err != nil || v.Due {
		t.Errorf("%+v, %v", v, err)
	}
}

// A check leaves no process behind, in any session.
func TestCheckLeavesNothing(t *testing.T) {
	p := newHarness(t)
	gate := spec.Gate{Kind: spec.Condition, Check: []string{"/bin/sh", "-c", "setsid sh -c 'echo $$ >>pids; exec sleep 4324' & while ! [ -s pids ]; do sleep 0.01; done"}, Limit: waitTimeout, Every: time.Hour}
	p.held = "not now"
	d := p.open(p.sh("a", "true", gate))
	if _, _, err := d.Check(ctxOf(t), "a"); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(p.read("pids")))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it has ended", func() bool {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || len(cmdline) == 0
	})
}

func TestEnable(t *testing.T) {
	p := newHarness(t)
	o := p.sh("a", "true", every(time.Hour))
	d := p.open(o)
	p.runs("a", 1)
	if err := d.Enable(ctxOf(t), "a", false); err != nil {
		t.Fatal(err)
	}
	p.advance(2 * time.Hour)
	p.close(true)
	d = p.open(o)
	if v, err := d.Show("a"); err != nil || v.Enabled || !strings.HasPrefix(v.Why, "it is disabled by hand") {
		t.Errorf("%+v, %v", v, err)
	}
	if err := d.Enable(ctxOf(t), "a", true); err != nil {
		t.Fatal(err)
	}
	p.runs("a", 2)
	if err := d.Enable(ctxOf(t), "b", true); err != order.ErrUnknown {
		t.Error(err)
	}
}

func TestReplace(t *testing.T) {
	p := newHarness(t)
	d := p.open(p.sh("a", "true", every(time.Hour)))
	p.runs("a", 1)
	d.Replace([]*spec.Order{p.sh("b", "true", every(time.Hour))})
	p.runs("b", 1)
	if _, err := d.Show("a"); err != order.ErrUnknown {
		t.Error(err)
	}
	d.Replace([]*spec.Order{p.sh("a", "true", every(time.Hour))})
	p.advance(30 * time.Minute)
	if v, err := d.Show("a"); err != nil || v.State.Runs != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	p.advance(31 * time.Minute)
	p.runs("a", 2)
}

// Each of many events is handed to a run exactly once, in order.
func TestStorm(t *testing.T) {
	const n = 10_000
	p := newHarness(t)
	p.open(p.sh("a", "cat >>got", on("task.commented")))
	begin := time.Now()
	for i := range n {
		p.log.Append(event.Event{Type: "task.commented", Message: fmt.Sprint(i)})
	}
	if err := p.log.Sync(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events in %v", n, time.Since(begin))
	until(t, "all are handed over", func() bool { return strings.Count(p.read("got"), "\n") >= n })
	next := 0
	for line := range strings.Lines(p.read("got")) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Message != fmt.Sprint(next) {
			t.Fatalf("%d: %q, %v", next, line, err)
		}
		next++
	}
	if next != n {
		t.Errorf("%d events", next)
	}
	until(t, "the last run ends", func() bool { return p.d.List()[0].Running == 0 })
	t.Logf("%d runs", p.d.List()[0].State.Runs)
}

// A new order is stored before Open returns: later events count for it even if the daemon is killed at
// once.
func TestKnownAtOnce(t *testing.T) {
	p := newHarness(t)
	p.open(p.sh("a", "true", on("task.edited")))
	if records, _, err := p.store.Snapshot(ctxOf(t), statePrefix); err != nil || len(records) != 1 {
		t.Errorf("%v, %v", records, err)
	}
}

// Events are handed over exactly once across restarts of the dispatcher, too.
func TestStormOverRestarts(t *testing.T) {
	const n, lives = 10_000, 10
	p := newHarness(t)
	o := p.sh("a", "cat >>got", on("task.commented"))
	for life := range lives {
		p.open(o)
		for i := range n / lives {
			p.log.Append(event.Event{Type: "task.commented", Message: fmt.Sprint(life*n/lives + i)})
		}
		p.close(true)
	}
	p.open(o)
	defer func() {
		if t.Failed() {
			t.Logf("%d handed over, the first is %.200q; %+v", strings.Count(p.read("got"), "\n"), p.read("got"), p.d.List()[0].State)
		}
	}()
	until(t, "all are handed over", func() bool { return strings.Count(p.read("got"), "\n") >= n })
	until(t, "the last run ends", func() bool { return p.d.List()[0].Running == 0 })
	next := 0
	for line := range strings.Lines(p.read("got")) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Message != fmt.Sprint(next) {
			t.Fatalf("%d: %q, %v", next, line, err)
		}
		next++
	}
	if next != n {
		t.Errorf("%d events", next)
	}
}

func put(t *testing.T, p *harness, key string, value []byte) {
	t.Helper()
	if _, err := p.store.Apply(ctxOf(t), store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: key, Value: value}}); err != nil {
		t.Fatal(err)
	}
}
