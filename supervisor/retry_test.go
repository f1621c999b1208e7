package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// quota is an exit that says when to try again: d from now.
func quota(d time.Duration) error {
	return fmt.Errorf("run: %w", &RetryError{At: time.Now().Add(d), Err: errors.New("the quota is used up")})
}

// A child that says when to try again is started then, whatever its restart type, and no limit counts
// it.
func TestRetry(t *testing.T) {
	for _, restart := range []Restart{Permanent, Transient, Temporary} {
		for _, limit := range []Limit{{}, Escalating(1, time.Hour), GivingUp(1), Quarantining(2, 24*time.Hour), Pausing(1, time.Hour)} {
			synctest.Test(t, func(t *testing.T) {
				var starts []time.Duration
				begin := time.Now()
				s, err := Start(context.Background(), Spec{Children: []ChildSpec{{
					ID: "a", Restart: restart, Limit: limit,
					Run: func(ctx context.Context) error {
						if starts = append(starts, time.Since(begin)); len(starts) < 6 {
							return quota(3 * time.Hour)
						}
						return idle(ctx)
					},
				}}})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { s.Stop(); s.Wait() }()
				synctest.Wait()
				info, err := s.Child("a")
				if err != nil || info.State != Restarting || info.Reason != ReasonRetry || !info.NextAt.Equal(begin.Add(3*time.Hour)) {
					t.Fatalf("%v, %v: %+v, %v", restart, limit, info, err)
				}
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				expected := []time.Duration{0, 3 * time.Hour, 6 * time.Hour, 9 * time.Hour, 12 * time.Hour, 15 * time.Hour}
				if !slices.Equal(starts, expected) {
					t.Errorf("%v, %v: started at %v, expected %v", restart, limit, starts, expected)
				}
				info, err = s.Child("a")
				if err != nil || info.State != Running || info.Restarts != 0 || info.Incarnation != 6 {
					t.Errorf("%v, %v: %+v, %v", restart, limit, info, err)
				}
			})
		}
	}
}

// A time in the past makes no busy loop, and none has to wait that has run for a second. A failure after a retry is
// delayed and counted as the first.
func TestRetryInThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		begin := time.Now()
		s, err := Start(context.Background(), Spec{Children: []ChildSpec{{
			ID: "a", Backoff: Backoff{Kind: Fixed, Base: time.Minute}, Run: func(ctx context.Context) error {
				switch starts = append(starts, time.Since(begin)); len(starts) {
				case 1, 2:
					return quota(-time.Hour)
				case 3:
					time.Sleep(300 * time.Millisecond)
					return quota(-time.Hour)
				case 4:
					time.Sleep(10 * time.Second)
					return quota(-time.Hour)
				case 5:
					return errBoom
				}
				return idle(ctx)
			},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		time.Sleep(time.Hour)
		synctest.Wait()
		expected := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 13 * time.Second, 73 * time.Second}
		if !slices.Equal(starts, expected) {
			t.Errorf("started at %v, expected %v", starts, expected)
		}
		if info, err := s.Child("a"); err != nil || info.Restarts != 1 {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// A start that fails with a time to try again is no failure of the start: the child waits, and so does one
// that is added or started by hand.
func TestRetryOfStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := false
		spec := func(id string) ChildSpec {
			return ChildSpec{ID: id, Restart: Temporary, WaitReady: true, Run: func(ctx context.Context) error {
				if !open {
					return quota(time.Hour)
				}
				Ready(ctx)
				return idle(ctx)
			}}
		}
		s, err := Start(context.Background(), Spec{Children: []ChildSpec{spec("a")}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		var retry *RetryError
		if _, err := s.StartChild(context.Background(), spec("b")); !errors.As(err, &retry) {
			t.Fatal(err)
		}
		open = true
		if _, err := s.RestartChild(context.Background(), "b"); !errors.Is(err, ErrRestarting) {
			t.Error(err)
		}
		all, err := s.Children()
		if err != nil || len(all) != 2 || all[0].State != Restarting || all[1].State != Restarting {
			t.Fatalf("%+v, %v", all, err)
		}
		if err := s.Retry("b"); err != nil { // earlier than it has said
			t.Fatal(err)
		}
		synctest.Wait()
		if info, err := s.Child("b"); err != nil || info.State != Running {
			t.Errorf("after Retry: %+v, %v", info, err)
		}
		if err := s.Retry("b"); !errors.Is(err, ErrNotWaiting) { // it runs
			t.Error(err)
		}
		if info, err := s.Child("a"); err != nil || info.State != Restarting {
			t.Errorf("its sibling: %+v, %v", info, err)
		}
		if err := s.TerminateChild(context.Background(), "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if info, err := s.Child("a"); err == nil && info.State != Stopped {
			t.Errorf("after it was stopped: %+v", info)
		}
	})
}

// In a group, the siblings after a child that waits are stopped, and start with it.
func TestRetryInGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		say := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, text)
		}
		said := func() string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			text := strings.Join(log, ", ")
			log = nil
			return text
		}
		end := make(chan error)
		run := func(id string) ChildSpec {
			return ChildSpec{ID: id, WaitReady: true, Run: func(ctx context.Context) error {
				say(id)
				Ready(ctx)
				if id != "b" {
					defer say("no " + id)
					return idle(ctx)
				}
				select {
				case err := <-end:
					return err
				case <-ctx.Done():
					return nil
				}
			}}
		}
		s, err := Start(context.Background(), Spec{Strategy: RestForOne, Children: []ChildSpec{run("a"), run("b"), run("c")}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		if got := said(); got != "a, b, c" {
			t.Errorf("at first: %s", got)
		}
		end <- quota(time.Hour)
		if got := said(); got != "no c" {
			t.Errorf("when b waits: %s", got)
		}
		time.Sleep(59 * time.Minute)
		if got := said(); got != "" {
			t.Errorf("within the hour: %s", got)
		}
		time.Sleep(2 * time.Minute)
		if got := said(); got != "b, c" {
			t.Errorf("after the hour: %s", got)
		}
	})
}

// A supervisor that comes later waits as long as the one before it would have.
func TestRetryIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		child := ChildSpec{ID: "a", Run: func(ctx context.Context) error {
			if runs.Add(1) == 1 {
				return quota(time.Hour)
			}
			return idle(ctx)
		}}
		var saved Saved
		s, err := Start(context.Background(), Spec{Children: []ChildSpec{child}, OnEvent: func(e Event) {
			if e, ok := e.(ChildExited); ok && e.After != nil {
				saved = e.After.Child
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.Kill()
		s.Wait()
		if saved.State != Restarting || saved.Reason != ReasonRetry || len(saved.Counted) > 0 || saved.Restarts != 0 {
			t.Fatalf("%+v", saved)
		}
		time.Sleep(30 * time.Minute)
		child.Saved = &saved
		if s, err = Start(context.Background(), Spec{Children: []ChildSpec{child}}); err != nil {
			t.Fatal(err)
		}
		defer func() { s.Stop(); s.Wait() }()
		time.Sleep(29 * time.Minute)
		synctest.Wait()
		if n := runs.Load(); n != 1 {
			t.Errorf("%d runs before it is time", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := runs.Load(); n != 2 {
			t.Errorf("%d runs after the hour", n)
		}
	})
}
