package liveness

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func newWatch(t Timeouts, now time.Time) *Watch {
	w := new(Watch)
	w.Begin(now, t)
	return w
}

// Each case lists the signs of life and their times, and the actions that follow. Tick is called
// when it is due.
func TestLadder(t *testing.T) {
	const m = time.Minute
	type input func(w *Watch, now time.Time) bool
	sign := func(w *Watch, now time.Time) bool { return w.Sign(now) }
	progress := func(n int64, note string) input {
		return func(w *Watch, now time.Time) bool { return w.Progress(now, &n, note) }
	}
	wait := func(waits bool) input {
		return func(w *Watch, now time.Time) bool { w.Wait(now, waits); return false }
	}
	type heard struct {
		at time.Duration
		input
		recovers bool
	}
	for _, tt := range []struct {
		name  string
		t     Timeouts
		heard []heard
		until time.Duration
		want  []string
	}{
		{name: "nothing promised", until: 100 * time.Hour},
		{name: "silent", t: Timeouts{Heartbeat: m, Nudge: true}, until: 2 * m, want: []string{
			"1m0s probe: no heartbeat for 1m (heartbeat_timeout 1m)",
			"1m0s nudge: no heartbeat for 1m (heartbeat_timeout 1m)",
			"1m30s fail: no heartbeat for 1m30s (heartbeat_timeout 1m), nudged 30s ago"}},
		{name: "cannot be nudged", t: Timeouts{Heartbeat: m}, until: 2 * m, want: []string{
			"1m0s probe: no heartbeat for 1m (heartbeat_timeout 1m)",
			"1m30s fail: no heartbeat for 1m30s (heartbeat_timeout 1m)"}},
		{name: "beats", t: Timeouts{Heartbeat: m}, heard: []heard{{50 * time.Second, sign, false}, {105 * time.Second, sign, false}}, until: 164 * time.Second},
		{name: "beats again", t: Timeouts{Heartbeat: m}, heard: []heard{{80 * time.Second, sign, true}, {130 * time.Second, sign, false}}, until: 3 * m, want: []string{
			"1m0s probe: no heartbeat for 1m (heartbeat_timeout 1m)"}},
		{name: "a short timeout has a longer grace", t: Timeouts{Heartbeat: 100 * time.Millisecond}, until: 10 * time.Second, want: []string{
			"100ms probe: no heartbeat for 100ms (heartbeat_timeout 100ms)",
			"5.1s fail: no heartbeat for 5.1s (heartbeat_timeout 100ms)"}},
		{name: "a long timeout has a shorter grace", t: Timeouts{Heartbeat: 2 * time.Hour}, until: 10 * time.Hour, want: []string{
			"2h0m0s probe: no heartbeat for 2h (heartbeat_timeout 2h)",
			"2h5m0s fail: no heartbeat for 2h5m (heartbeat_timeout 2h)"}},
		{name: "beats but does not get on", t: Timeouts{Heartbeat: m, Progress: 2 * m, Nudge: true}, until: 4 * m, want: []string{
			"2m30s probe: no progress since 7 \"parsing\" for 2m (progress_timeout 2m)",
			"2m30s nudge: no progress since 7 \"parsing\" for 2m (progress_timeout 2m)",
			"3m30s fail: no progress since 7 \"parsing\" for 3m (progress_timeout 2m), nudged 1m ago"},
			heard: []heard{{30 * time.Second, progress(7, "parsing"), false}, {80 * time.Second, progress(7, "parsing"), false},
				{130 * time.Second, progress(7, ""), false}, {185 * time.Second, progress(7, "parsing"), false}}},
		{name: "gets on", t: Timeouts{Progress: 2 * m}, until: 6 * m, want: []string{
			"2m0s probe: no progress for 2m (progress_timeout 2m)", "4m10s probe: no progress since 1 \"a\" for 2m (progress_timeout 2m)"},
			heard: []heard{{130 * time.Second, progress(1, "a"), true}, {140 * time.Second, progress(1, "a"), false}, {300 * time.Second, progress(1, "b"), true}}},
		{name: "a call is no progress", t: Timeouts{Progress: 2 * m}, heard: []heard{{m, sign, false}, {130 * time.Second, sign, false}}, until: 4 * m, want: []string{
			"2m0s probe: no progress for 2m (progress_timeout 2m)", "3m0s fail: no progress for 3m (progress_timeout 2m)"}},
		{name: "waits for a person", t: Timeouts{Heartbeat: m, Progress: 2 * m}, until: 10*time.Hour + 90*time.Second, want: []string{
			"10h0m15s probe: no heartbeat for 1m (heartbeat_timeout 1m)",
			"10h0m45s fail: no heartbeat for 1m30s (heartbeat_timeout 1m)"},
			heard: []heard{{45 * time.Second, wait(true), false}, {50 * time.Second, wait(true), false}, {10 * time.Hour, wait(false), false}, {10 * time.Hour, wait(false), false}}},
		{name: "a sign while it waits", t: Timeouts{Heartbeat: m}, until: time.Hour + 90*time.Second, want: []string{
			"1h1m0s probe: no heartbeat for 1m (heartbeat_timeout 1m)"},
			heard: []heard{{45 * time.Second, wait(true), false}, {10 * m, sign, false}, {time.Hour, wait(false), false}, {time.Hour + 80*time.Second, sign, true}}},
		{name: "asks when nudged", t: Timeouts{Heartbeat: m, Nudge: true}, until: time.Hour, want: []string{
			"1m0s probe: no heartbeat for 1m (heartbeat_timeout 1m)", "1m0s nudge: no heartbeat for 1m (heartbeat_timeout 1m)"},
			heard: []heard{{80 * time.Second, wait(true), false}, {90 * time.Second, sign, false}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begin := time.Now()
			w := newWatch(tt.t, begin)
			var got []string
			tickTo := func(end time.Duration) {
				for due := w.Due(); !due.IsZero() && due.Sub(begin) <= end; due = w.Due() {
					if a := w.Tick(due, true); a.Step != None {
						got = append(got, fmt.Sprintf("%v %v: %s", due.Sub(begin), a.Step, a.Reason))
					}
				}
			}
			for _, h := range tt.heard {
				tickTo(h.at)
				if recovers := h.input(w, begin.Add(h.at)); recovers != h.recovers {
					t.Errorf("at %v: recovers %t, want %t", h.at, recovers, h.recovers)
				}
			}
			tickTo(tt.until)
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tt.want, "\n  "))
			}
		})
	}
}

// Tick takes no action while it is unknown whether the agent is alive.
func TestUnknown(t *testing.T) {
	now := time.Now()
	w := newWatch(Timeouts{Heartbeat: time.Minute, Nudge: true}, now)
	for range 10_000 {
		if a := w.Tick(w.Due(), false); a.Step != None {
			t.Fatalf("%v though nothing is known", a)
		}
	}
	for _, want := range []Step{Probe, Nudge} {
		if a := w.Tick(w.Due(), true); a.Step != want {
			t.Fatalf("%v, want %v", a.Step, want)
		}
	}
	for w.Due().Sub(now) < 100*time.Hour {
		if a := w.Tick(w.Due(), false); a.Step != None {
			t.Fatalf("%v though nothing is known", a)
		}
	}
	if a := w.Tick(w.Due(), true); a.Step != Fail {
		t.Fatalf("%v, want a failure", a.Step)
	}
	if !w.Due().IsZero() || w.Tick(now.Add(1000*time.Hour), true).Step != None {
		t.Error("there is something after a failure")
	}
}

// Time in which the daemon did not run does not count.
func TestAway(t *testing.T) {
	begin := time.Now()
	w := newWatch(Timeouts{Heartbeat: time.Minute}, begin)
	back := begin.Add(10 * time.Hour)
	if a := w.Tick(back, true); a.Step != Probe || a.Reason != "no heartbeat for 1m (heartbeat_timeout 1m)" {
		t.Fatalf("after it was away: %v", a)
	}
	// Away again, in the middle of the grace.
	for range 10 {
		back = w.Due()
		if a := w.Tick(back, true); a.Step != None {
			t.Fatal(a)
		}
	}
	again := back.Add(3 * time.Hour)
	if a := w.Tick(again, true); a.Step != None {
		t.Fatal(a)
	}
	for w.Due().Before(again.Add(15 * time.Second)) {
		if a := w.Tick(w.Due(), true); a.Step != None {
			t.Fatalf("%v %v after the watcher came back, with 20s of grace left", a, w.Due().Sub(again))
		}
	}
	if !w.Sign(again.Add(16 * time.Second)) {
		t.Error("the sign that it can give at last does not end the episode")
	}
}

// For any sequence of signs, an agent that keeps its timeouts is never suspected. An agent that is
// failed was probed before, nudged if possible, and silent for the timeout and the grace period.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timeouts := Timeouts{
			Heartbeat: time.Duration(rapid.IntRange(0, 100).Draw(t, "heartbeat")) * time.Second,
			Progress:  time.Duration(rapid.IntRange(0, 100).Draw(t, "progress")) * time.Second,
			Nudge:     rapid.Bool().Draw(t, "nudge"),
		}
		begin := time.Now()
		now := begin
		w := newWatch(timeouts, now)
		// The model: the time that counts since the last sign, for each timeout.
		silence := [2]time.Duration{}
		seen := [2]time.Duration{} // the part of it in which the agent was known to be alive
		limits := [2]time.Duration{timeouts.Heartbeat, timeouts.Progress}
		ladder := [2]Step{}
		waits, known := false, true
		claim := int64(0)
		reset := func(c Cause, recovered bool) {
			if (ladder[c] == Probe || ladder[c] == Nudge) && !recovered {
				t.Fatalf("the end of the %v episode is not told", c)
			}
			silence[c], seen[c], ladder[c] = 0, 0, None
		}
		pass := func(d time.Duration) { // calls Tick whenever it is due
			end := now.Add(d)
			step := func(to time.Time) {
				if !waits {
					silence[0] += to.Sub(now)
					silence[1] += to.Sub(now)
					if known {
						seen[0] += to.Sub(now)
						seen[1] += to.Sub(now)
					}
				}
				now = to
			}
			for due := w.Due(); !due.IsZero() && !due.After(end); due = w.Due() {
				if due.After(now) {
					step(due)
				}
				a := w.Tick(now, known)
				if a.Step == None {
					continue
				}
				if !known || waits {
					t.Fatalf("%v, known %t, waits %t", a, known, waits)
				}
				if limits[a.Cause] == 0 || silence[a.Cause] < limits[a.Cause] {
					t.Fatalf("%v after %v of %v", a, silence[a.Cause], limits[a.Cause])
				}
				before := ladder[a.Cause]
				ladder[a.Cause] = a.Step
				switch {
				case a.Step == Probe && before == None:
				case a.Step == Nudge && before == Probe && timeouts.Nudge:
				case a.Step == Fail && (before == Nudge || before == Probe && !timeouts.Nudge):
					if silence[a.Cause] < limits[a.Cause]+grace(limits[a.Cause]) {
						t.Fatalf("failed after %v of %v", silence[a.Cause], limits[a.Cause])
					}
				default:
					t.Fatalf("%v after %v", a.Step, before)
				}
			}
			step(end)
			for c := range ladder {
				if known && !waits && limits[c] > 0 && ladder[0] != Fail && ladder[1] != Fail &&
					seen[c] >= limits[c]+grace(limits[c])+2*pollInterval {
					t.Fatalf("%v of silence, limit %v, and only %v", seen[c], limits[c], ladder[c])
				}
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			if ladder[0] == Fail || ladder[1] == Fail {
				return
			}
			switch rapid.IntRange(0, 6).Draw(t, "op") {
			case 0:
				reset(Heartbeat, w.Sign(now))
			case 1:
				claim++
				recovered := w.Progress(now, &claim, "")
				reset(Heartbeat, recovered || ladder[1] != None)
				reset(Progress, recovered)
			case 2:
				waits = !waits
				w.Wait(now, waits)
				if waits {
					ladder, seen = [2]Step{}, [2]time.Duration{}
				}
			case 3:
				known = !known
			default:
				pass(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "ms")) * time.Millisecond)
			}
		}
	})
}

// A Watch works with real timers, as in the daemon.
func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatch(Timeouts{Heartbeat: time.Minute, Nudge: true}, time.Now())
		begin, signs := time.Now(), time.NewTicker(40*time.Second)
		defer signs.Stop()
		quiet := time.After(10*time.Minute + 10*time.Second)
		var got []string
		for !w.Due().IsZero() {
			select {
			case <-signs.C:
				w.Sign(time.Now())
			case <-quiet:
				signs.Stop()
			case <-time.After(time.Until(w.Due())):
				if a := w.Tick(time.Now(), true); a.Step != None {
					got = append(got, fmt.Sprintf("%v %v", time.Since(begin), a.Step))
				}
			}
		}
		if got := strings.Join(got, ", "); got != "11m0s probe, 11m0s nudge, 11m30s fail" {
			t.Error(got)
		}
	})
}

func TestState(t *testing.T) {
	now := time.Now()
	w := newWatch(Timeouts{Heartbeat: time.Minute, Progress: time.Hour}, now)
	if w.State().Heard {
		t.Error("heard before it has said anything")
	}
	w.Progress(now.Add(time.Second), new(int64(42)), "")
	w.Progress(now.Add(2*time.Second), nil, "parsing")
	w.Sign(now.Add(3 * time.Second))
	s := w.State()
	if !s.Heartbeat.Equal(now.Add(3*time.Second)) || !s.Progress.Equal(now.Add(2*time.Second)) || *s.Number != 42 || !s.Heard || s.Note != "parsing" || s.Suspected || s.Waiting {
		t.Errorf("%+v", s)
	}
	if got := Claim(s.Number, s.Note); got != `42 "parsing"` {
		t.Error(got)
	}
	w.Tick(w.Due(), true)
	w.Tick(w.Due(), true)
	if !w.State().Suspected {
		t.Error("under suspicion, and not told")
	}
	w.Wait(now.Add(2*time.Minute), true)
	if s := w.State(); !s.Waiting || s.Suspected {
		t.Errorf("%+v", s)
	}
}
