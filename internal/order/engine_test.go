package order

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/spec"
)

func TestCooldown(t *testing.T) {
	s := start(t, order("a", every(24*time.Hour)))
	s.wantFired("a 01T00:00:30")
	if s.reason[0] != "never run" {
		t.Error(s.reason)
	}
	s.run(12 * time.Hour)
	if v, _ := s.e.Look("a", s.now, nil); v.Due || v.Why != "cooldown: 12h0m0s remaining" || !v.Next.Equal(s.now.Wall.Add(12*time.Hour)) {
		t.Errorf("%+v", v)
	}
	s.run(37 * time.Hour)
	s.wantFired("a 01T00:00:30", "a 02T00:00:30", "a 03T00:00:30")
}

// A cooldown may be longer than the history is kept.
func TestCooldownOverRestarts(t *testing.T) {
	s := start(t, order("weekly", every(168*time.Hour)))
	for range 14 {
		s.run(time.Hour)
		s.restart(23 * time.Hour)
	}
	if len(s.fired) != 3 { // at the beginning, after 7 days, after 14
		t.Errorf("fired %v", s.fired)
	}
}

// The clock may be set at any time, also while no daemon runs.
func TestCooldownAndTheClock(t *testing.T) {
	for _, step := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour, 90 * time.Minute, -90 * time.Minute} {
		for _, lives := range []bool{true, false} {
			s := start(t, order("a", every(time.Hour)))
			s.run(20 * time.Minute)
			s.now.Wall = s.now.Wall.Add(step)
			if !lives {
				s.open()
			}
			s.run(39 * time.Minute)
			if len(s.fired) != 1 {
				t.Errorf("step %v, lives %v: early: %v", step, lives, s.fired)
			}
			s.run(2 * time.Minute)
			if len(s.fired) != 2 {
				t.Errorf("step %v, lives %v: late: %v", step, lives, s.fired)
			}
		}
	}
	// Across a boot only the calendar is known, and setting it back costs an interval.
	s := start(t, order("a", every(time.Hour)))
	s.now.Boot, s.now.Up, s.now.Wall = "two", time.Minute, s.now.Wall.Add(-365*24*time.Hour)
	s.open()
	s.run(59 * time.Minute)
	s.now.Wall = s.now.Wall.Add(400 * 24 * time.Hour)
	if len(s.fired) != 1 {
		t.Error(s.fired)
	}
	s.run(2 * time.Minute)
	if len(s.fired) != 2 {
		t.Error(s.fired)
	}
}

func TestCron(t *testing.T) {
	s := start(t, order("a", at(t, "*/20 9-10 * * *")))
	s.run(24 * time.Hour)
	s.wantFired("a 01T09:00:00", "a 01T09:20:00", "a 01T09:40:00", "a 01T10:00:00", "a 01T10:20:00", "a 01T10:40:00")
	if next, err := s.e.Next("a", s.now, 2); err != nil || len(next) != 2 || next[1].Format("02T15:04") != "02T09:20" {
		t.Error(next, err)
	}
}

// A slow tick loses no minute.
func TestCronSlowTick(t *testing.T) {
	s := start(t, order("a", at(t, "0 3 * * *")))
	s.run(2*time.Hour + 59*time.Minute + 29*time.Second)
	s.pass(31 * time.Second) // to 03:00:30
	s.step()
	s.wantFired("a 01T03:00:30")
	s.pass(20 * time.Second)
	s.step()
	s.wantFired("a 01T03:00:30")
}

func TestCronMissed(t *testing.T) {
	s := start(t, order("a", at(t, "0 3 * * *")))
	s.restart(4 * time.Hour)
	s.wantFired()
	if len(s.drops) != 1 || !strings.Contains(s.drops[0], "2024-03-01T03:00:00Z has passed") {
		t.Error(s.drops)
	}
	s.restart(23*time.Hour - 10*time.Second) // 03:00:20
	s.wantFired("a 02T03:00:20")
	s.restart(time.Second)
	s.restart(time.Second)
	s.wantFired("a 02T03:00:20")

	up := order("a", at(t, "0 3 * * *"))
	up.CatchUp = true
	s = start(t, up)
	s.restart(100 * time.Hour) // five of them
	s.wantFired("a 05T04:00:30")
	s.run(time.Hour)
	s.restart(0)
	s.wantFired("a 05T04:00:30")
}

// Times before an order existed do not count, nor those of a schedule before it had that.
func TestCronBefore(t *testing.T) {
	up := order("a", at(t, "0 0 * * *"))
	up.CatchUp = true
	s := start(t, up)
	s.wantFired() // midnight was 30 s ago
	s.run(time.Hour)
	changed := order("a", at(t, "30 0 * * *"))
	changed.CatchUp = true
	s.orders = []*Order{changed}
	s.restart(time.Second)
	s.wantFired()
	s.run(24 * time.Hour)
	s.wantFired("a 02T00:30:00")
}

func TestCronAndTheClock(t *testing.T) {
	s := start(t, order("a", at(t, "0 * * * *")))
	s.run(3*time.Hour + 10*time.Minute)
	s.now.Wall = s.now.Wall.Add(-2 * time.Hour) // 01:10: 2:00 and 3:00 have been
	s.run(2 * time.Hour)                        // 03:10
	if len(s.fired) != 3 {
		t.Errorf("times fired twice: %v", s.fired)
	}
	s.run(time.Hour)
	if len(s.fired) != 4 {
		t.Errorf("after that: %v", s.fired)
	}
	s.now.Wall = s.now.Wall.Add(-30 * 24 * time.Hour) // it was wrong all the time
	s.run(2 * time.Hour)
	if len(s.fired) != 6 {
		t.Errorf("after a correction: %v", s.fired)
	}
	s.now.Wall = s.now.Wall.Add(10 * 24 * time.Hour)
	s.run(30 * time.Minute)
	if len(s.fired) != 6 || len(s.drops) != 1 {
		t.Errorf("after a step ahead: %v, %v", s.fired, s.drops)
	}
}

// Faults of the original: a condition, or a cooldown, with runs that take
// longer: five at once in five ticks.
func TestNeverTwoAtOnce(t *testing.T) {
	for name, gate := range map[string]Gate{"condition": when(), "cooldown": every(time.Second), "cron": at(t, "* * * * * *"), "event": on("x")} {
		s := start(t, order("a", gate))
		s.truth, s.length = true, 10*time.Minute
		for range 60 {
			s.run(time.Minute)
			s.event("x")
		}
		if s.most != 1 || len(s.fired) < 5 || len(s.fired) > 7 {
			t.Errorf("%s: %d at once, fired %v", name, s.most, s.fired)
		}
	}
}

func TestOverlap(t *testing.T) {
	type result struct{ atOnce, fired, dropped int }
	for overlap, want := range map[spec.Overlap]result{Skip: {1, 1, 5}, Queue: {1, 2, 0}, Allow: {6, 6, 0}} {
		o := order("a", at(t, "0 * * * *"))
		o.Overlap = overlap
		s := start(t, o)
		s.length = 5*time.Hour + 30*time.Minute
		s.run(6*time.Hour + 45*time.Minute) // a run from 1:00 to 6:30, and what comes of the times between
		if got := (result{s.most, len(s.fired), len(s.drops)}); got != want {
			t.Errorf("%v: %+v, want %+v", overlap, got, want)
		}
	}
}

// A queued run survives the daemon.
func TestQueueOverRestart(t *testing.T) {
	o := order("a", at(t, "0 1,2 * * *"))
	o.Overlap = Queue
	s := start(t, o)
	s.length = 5 * time.Hour
	s.run(3 * time.Hour)
	s.restart(time.Minute)
	s.run(4 * time.Hour)
	if len(s.fired) != 2 || s.most != 1 {
		t.Errorf("%v, %d at once", s.fired, s.most)
	}
}

func TestCondition(t *testing.T) {
	s := start(t, order("a", when()))
	s.run(10 * time.Minute)
	if len(s.fired) != 0 || s.checks < 19 || s.checks > 22 {
		t.Errorf("%v, %d checks", s.fired, s.checks)
	}
	s.truth = true
	s.run(31 * time.Second)
	s.truth = false
	s.run(5 * time.Minute)
	if len(s.fired) != 1 {
		t.Error(s.fired)
	}
}

// The result of a check that cannot fire the order is dropped, and the check does not run again at once.
func TestConditionDoesNotSpin(t *testing.T) {
	o := order("a", when(), at(t, "0 0 1 1 *"))
	o.All = true
	s := start(t, o)
	s.truth = true
	s.run(24 * time.Hour)
	if s.checks != 0 || s.steps > 24*3600/30*3 {
		t.Errorf("%d checks, %d steps", s.checks, s.steps)
	}
	o = order("a", when(), every(time.Hour))
	o.All = true
	s = start(t, o)
	s.truth = true
	s.e.Suspend(true)
	s.run(24 * time.Hour)
	if s.checks > 1 || len(s.fired) > 1 || s.steps > 24*3600/30*3 {
		t.Errorf("suspended: %d checks, %v, %d steps", s.checks, s.fired, s.steps)
	}
	s.e.Suspend(false)
	s.full = true
	s.run(time.Hour)
	if len(s.fired) > 1 || s.checks > 3600/5+2 {
		t.Errorf("full: %d checks, %v", s.checks, s.fired)
	}
	s.full = false
	s.run(time.Minute)
	if n := len(s.fired); n < 1 || n > 2 {
		t.Error(s.fired)
	}
}

func TestAll(t *testing.T) {
	o := order("a", at(t, "0 3 * * *"), every(36*time.Hour), when())
	o.All = true
	s := start(t, o)
	s.run(26 * time.Hour)
	if len(s.fired) != 0 || s.checks == 0 {
		t.Errorf("%v, %d checks", s.fired, s.checks)
	}
	s.truth = true // at 02:00 of the second: the time of the first day still waits
	s.run(31 * time.Second)
	if len(s.fired) != 1 {
		t.Error(s.fired)
	}
	s.run(36 * time.Hour)
	if len(s.fired) != 2 { // 36 h later, the 3:00 of the third has come
		t.Error(s.fired)
	}
}

func TestAny(t *testing.T) {
	s := start(t, order("a", at(t, "0 3 * * *"), on("x")))
	s.run(time.Hour)
	s.event("x", "y", "x")
	s.run(3 * time.Hour)
	if len(s.fired) != 2 || s.reason[0] != "2 events" && s.reason[0] != "1 event" {
		t.Error(s.fired, s.reason)
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"a": true, "nightly-backup_2.x": true, "": false, ".a": false, "-a": false, "a/b": false, "ä": false, "a b": false, strings.Repeat("x", 101): false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The benchmarks step 10,000 orders, with none due and with all due.
func BenchmarkTick(b *testing.B) {
	schedule, err := cron.Parse("0 * * * *", time.UTC)
	if err != nil {
		b.Fatal(err)
	}
	var all []*Order
	for i := range 10_000 {
		all = append(all, order(fmt.Sprintf("o%d", i), Gate{Kind: Cron, Schedule: schedule}))
	}
	b.Run("idle", func(b *testing.B) {
		s := start(b, all...)
		for b.Loop() {
			s.pass(time.Microsecond)
			s.e.Step(s.now)
		}
	})
	b.Run("all due", func(b *testing.B) {
		s := start(b, all...)
		longest := time.Duration(0)
		for b.Loop() {
			s.pass(time.Hour)
			for fired := 0; fired < len(all); {
				begin := time.Now()
				actions := s.e.Step(s.now)
				longest = max(longest, time.Since(begin))
				fired += len(actions)
			}
			for _, o := range all {
				s.e.Ended(o.Name)
			}
			for s.e.Wait(s.now, time.Second) == 0 {
				s.e.Step(s.now)
			}
		}
		b.ReportMetric(float64(longest.Microseconds()), "longest-step-µs")
	})
}
