package health

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
)

func TestWatchdogJudge(t *testing.T) {
	const s = time.Second
	at := func(d time.Duration) time.Time { return time.Unix(1000, 0).Add(d) }
	v := watchdog{period: 30 * s, grace: 50 * s, since: at(0)}
	free := watchdog{grace: 50 * s, since: at(0)}
	for _, c := range []struct {
		name   string
		v      watchdog
		said   sdnotify.Notice
		now    time.Duration
		reason string
		next   time.Duration // 0: for ever
	}{
		{"no listener", v, sdnotify.Notice{}, 1000 * s, "", 0},
		{"nothing yet", v, sdnotify.Notice{Since: at(0)}, 29 * s, "", 30 * s},
		{"nothing at all", v, sdnotify.Notice{Since: at(0)}, 30 * s, "watchdog: nothing heard for 30s", 0},
		{"no watchdog", free, sdnotify.Notice{Since: at(0)}, 1000 * s, "", 0},
		{"alive", v, sdnotify.Notice{Since: at(0), Alive: at(10 * s), Heard: at(10 * s)}, 39 * s, "", 40 * s},
		{"no longer", v, sdnotify.Notice{Since: at(0), Alive: at(10 * s), Heard: at(10 * s)}, 40 * s,
			"watchdog: nothing heard for 30s", 0},
		{"words are no signs of life", v, sdnotify.Notice{Since: at(0), Alive: at(10 * s), Heard: at(20 * s)}, 40 * s,
			"watchdog: no WATCHDOG=1 for 30s", 0},
		{"a word was on its way", v, sdnotify.Notice{Since: at(0), Heard: at(20 * time.Millisecond)}, 30 * s,
			"watchdog: nothing heard for 30s", 0},
		{"a new controller", watchdog{period: 30 * s, since: at(100 * s)},
			sdnotify.Notice{Since: at(0), Alive: at(10 * s), Heard: at(10 * s)}, 129 * s, "", 130 * s},
		{"a new listener", v, sdnotify.Notice{Since: at(100 * s)}, 129 * s, "", 130 * s},
		{"its own period", v, sdnotify.Notice{Since: at(0), Alive: at(0), Period: 60 * s}, 59 * s, "", 60 * s},
		{"its own period is over", v, sdnotify.Notice{Since: at(0), Alive: at(0), Period: 5 * s}, 5 * s,
			"watchdog: nothing heard for 5s", 0},
		{"its own period is nonsense", v, sdnotify.Notice{Since: at(0), Alive: at(0), Period: 1}, 999 * time.Millisecond,
			"", s},
		{"the file has no watchdog", free, sdnotify.Notice{Since: at(0), Alive: at(0), Period: 5 * s}, 1000 * s, "", 0},
		{"extended", v, sdnotify.Notice{Since: at(0), Until: at(70 * s)}, 69 * s, "", 70 * s},
		{"extended, and over", v, sdnotify.Notice{Since: at(0), Until: at(70 * s), Heard: at(2 * s)}, 70 * s,
			"watchdog: no WATCHDOG=1 for 30s", 0},
		{"extended less", v, sdnotify.Notice{Since: at(0), Until: at(10 * s)}, 29 * s, "", 30 * s},
		{"stopping", v, sdnotify.Notice{Since: at(0), Stopping: at(20 * s)}, 69 * s, "", 70 * s},
		{"stopping for too long", v, sdnotify.Notice{Since: at(0), Stopping: at(20 * s)}, 70 * s,
			"watchdog: has not ended within 50s of STOPPING=1", 0},
		{"stopping without a watchdog", free, sdnotify.Notice{Since: at(0), Stopping: at(20 * s)}, 1000 * s, "", 0},
		{"triggered", v, sdnotify.Notice{Since: at(0), Triggered: true, Alive: at(1 * s)}, 1 * s, ErrTriggered.Error(), 0},
		{"triggered without a watchdog", free, sdnotify.Notice{Since: at(0), Triggered: true}, 1 * s, ErrTriggered.Error(), 0},
	} {
		next, reason := c.v.judge(c.said, at(c.now))
		if got := errText(reason); got != c.reason {
			t.Errorf("%s: %q, want %q", c.name, got, c.reason)
		}
		if want := at(c.next); c.next == 0 && !next.IsZero() || c.next != 0 && !next.Equal(want) {
			t.Errorf("%s: next look at %v, want %v", c.name, next, want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestWatchdogRun(t *testing.T) {
	const period = 30 * time.Second
	for _, c := range []struct {
		name string
		play func(*fakeAgent)
		ends time.Duration // after the start
	}{
		{"silent", func(*fakeAgent) {}, period},
		{"alive until", func(s *fakeAgent) {
			for range 10 {
				time.Sleep(20 * time.Second)
				s.change(func() { s.said.Alive = time.Now() })
			}
		}, 200*time.Second + period},
		{"triggered", func(s *fakeAgent) {
			time.Sleep(9500 * time.Millisecond)
			s.change(func() { s.said.Triggered = true })
		}, 10 * time.Second},
		{"the last word was on its way", func(s *fakeAgent) {
			s.change(func() { s.arrives = func(n *sdnotify.Notice) { n.Alive = time.Now().Add(-10 * time.Second) } })
		}, period + 20*time.Second},
		{"unknown for a while", func(s *fakeAgent) {
			time.Sleep(25500 * time.Millisecond)
			s.change(func() { s.life = runtime.Unknown })
			time.Sleep(100 * time.Second)
			s.change(func() { s.life = runtime.Alive })
		}, 125*time.Second + period},
		{"its runtime does not answer for a while", func(s *fakeAgent) {
			s.change(func() { s.err = runtime.ErrUnknown })
			time.Sleep(100500 * time.Millisecond)
			s.change(func() { s.err = nil })
		}, 4 * period},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAgent(t)
				begin := time.Now()
				go watchdog{period: period, grace: 5 * time.Second}.run(s)
				go c.play(s)
				<-s.Context().Done()
				if d := time.Since(begin); d != c.ends {
					t.Errorf("failed after %v, want %v", d, c.ends)
				}
				synctest.Wait()
				if s.reason == nil || s.sig != syscall.SIGABRT {
					t.Errorf("failed with %v: %v", s.sig, s.reason)
				}
			})
		})
	}
}

// A watchdog stops when the incarnation ends, or when the daemon leaves it running.
func TestWatchdogEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAgent(t)
		over := make(chan struct{})
		go func() {
			defer close(over)
			watchdog{period: 10 * time.Second}.run(s)
		}()
		time.Sleep(5 * time.Second)
		s.end()
		<-over
		if s.reason != nil {
			t.Errorf("it was failed: %v", s.reason)
		}
	})
}
