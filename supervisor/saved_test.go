package supervisor

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// again starts a supervisor of one child a, as Save left it.
func again(t *testing.T, spec Spec, saved Saved, self SavedSelf) *Supervisor {
	t.Helper()
	spec.Children[0].Saved, spec.Saved = &saved, &self
	s, err := Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(); s.Wait() })
	return s
}

func info(t *testing.T, s *Supervisor) ChildInfo {
	t.Helper()
	synctest.Wait()
	i, err := s.Child("a")
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// What is saved of a life is where the next one goes on.
func TestSavedGoesOn(t *testing.T) {
	crash := func(ctx context.Context) error { return errors.New("boom") }
	stay := func(ctx context.Context) error { <-ctx.Done(); return nil }
	delay := Backoff{Kind: Fixed, Base: time.Minute}
	for name, test := range map[string]struct {
		spec  Spec
		do    func(t *testing.T, s *Supervisor)
		state State
		check func(t *testing.T, before, after ChildInfo, s *Supervisor)
	}{
		"a delay": {
			spec:  Spec{Limit: Escalating(5, time.Hour), Children: []ChildSpec{{ID: "a", Run: crash, Backoff: delay}}},
			state: Restarting,
			check: func(t *testing.T, before, after ChildInfo, s *Supervisor) {
				if !after.NextAt.Equal(before.NextAt) || after.InWindow != 1 {
					t.Errorf("next at %v, was %v; %d in the window", after.NextAt, before.NextAt, after.InWindow)
				}
				time.Sleep(time.Minute)
				if i := info(t, s); i.Incarnation != 2 || i.InWindow != 2 {
					t.Errorf("after the delay: %+v", i)
				}
			},
		},
		"a quarantine": {
			spec:  Spec{Limit: Quarantining(1, time.Hour), Children: []ChildSpec{{ID: "a", Run: crash}}},
			state: Quarantined,
			check: func(t *testing.T, before, after ChildInfo, s *Supervisor) {
				if !after.NextAt.Equal(before.NextAt) {
					t.Errorf("until %v, was %v", after.NextAt, before.NextAt)
				}
				time.Sleep(time.Hour + time.Second)
				if i := info(t, s); i.Incarnation != 2 {
					t.Errorf("after the quarantine: %+v", i)
				}
			},
		},
		"a give-up": {
			spec:  Spec{Limit: GivingUp(0), Children: []ChildSpec{{ID: "a", Run: crash}}},
			state: GivenUp,
			check: func(t *testing.T, _, _ ChildInfo, s *Supervisor) {
				time.Sleep(100 * time.Hour)
				if i := info(t, s); i.State != GivenUp || i.Incarnation != 1 {
					t.Errorf("much later: %+v", i)
				}
				if err := s.Reset("a"); err != nil {
					t.Error(err)
				}
				if i := info(t, s); i.Incarnation != 2 {
					t.Errorf("after Reset: %+v", i)
				}
			},
		},
		"a pause": {
			spec:  Spec{Limit: Pausing(1, time.Hour), Children: []ChildSpec{{ID: "a", Run: crash}}},
			state: Paused,
			check: func(t *testing.T, _, _ ChildInfo, s *Supervisor) {
				if err := s.Resume(); err != nil {
					t.Error(err)
				}
				if i := info(t, s); i.Incarnation != 2 {
					t.Errorf("after Resume: %+v", i)
				}
			},
		},
		"a stop by hand": {
			spec: Spec{Children: []ChildSpec{{ID: "a", Run: stay}}},
			do: func(t *testing.T, s *Supervisor) {
				if err := s.SuspendChild(t.Context(), "a"); err != nil {
					t.Error(err)
				}
			},
			state: Suspended,
			check: func(t *testing.T, _, _ ChildInfo, s *Supervisor) {
				if i, err := s.RestartChild(t.Context(), "a"); err != nil || i.Incarnation != 2 {
					t.Errorf("restarted by hand: %+v, %v", i, err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Start(t.Context(), test.spec)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if test.do != nil {
					test.do(t, s)
				}
				before := info(t, s)
				if before.State != test.state {
					t.Fatalf("before: %+v", before)
				}
				saved, self, err := s.Save("a")
				if err != nil {
					t.Fatal(err)
				}
				s.Stop()
				s.Wait()
				time.Sleep(time.Second) // between two supervisors
				s = again(t, test.spec, saved, self)
				after := info(t, s)
				if after.State != test.state || after.Incarnation != before.Incarnation || after.Restarts != before.Restarts {
					t.Errorf("after: %+v, before: %+v", after, before)
				}
				test.check(t, before, after, s)
			})
		})
	}
}

// The window of a supervisor survives, so that its crash does not reset the budget of a child.
func TestSavedWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		spec := Spec{Limit: Escalating(2, time.Minute), Children: []ChildSpec{{ID: "a", Run: func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}}}}
		// One is too old, one counts, and one was counted by a clock that has been set back.
		s := again(t, spec, Saved{}, SavedSelf{Counted: []time.Time{now.Add(-time.Hour), now.Add(-time.Second), now.Add(time.Hour)}})
		if i := info(t, s); i.InWindow != 2 {
			t.Errorf("%d in the window, want 2", i.InWindow)
		}
	})
}

// A clock that was set back between two supervisors delays no restart.
func TestSavedClockSetBack(t *testing.T) {
	spec := Spec{Children: []ChildSpec{{ID: "a", Limit: Quarantining(2, time.Hour), Run: func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}}}}
	for name, back := range map[string]time.Duration{"by an hour": time.Hour, "by a century": 100 * 365 * 24 * time.Hour, "not": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				then := time.Now().Add(back) // what the clock said then
				s := again(t, spec, Saved{
					At: then, State: Restarting, Incarnation: 3, NextAt: then.Add(time.Minute),
					Counted: []time.Time{then.Add(-59 * time.Minute)},
				}, SavedSelf{})
				if i := info(t, s); time.Until(i.NextAt) != time.Minute || i.InWindow != 1 {
					t.Errorf("the next try is in %v, want a minute; %d in the window", time.Until(i.NextAt), i.InWindow)
				}
				time.Sleep(61 * time.Second)
				if i := info(t, s); i.State != Running || i.Incarnation != 4 || i.InWindow != 1 {
					t.Errorf("after a minute, the first has left the window: %+v", i)
				}
			})
		})
	}
}

// A clock that is set while a supervisor lives changes what it says, not what it does.
func TestClockIsSet(t *testing.T) {
	r := newRig(t, Spec{Limit: Quarantining(1, time.Hour), Children: []ChildSpec{{ID: "a", Run: idle, Backoff: Backoff{Kind: Fixed, Base: time.Minute}}}})
	before := r.k.epoch
	for _, step := range []time.Duration{-time.Hour, 30 * time.Hour} {
		wall := before.Add(step + 10*time.Second)
		r.k.at(10*time.Second, wall)
		c := r.k.byID["a"]
		if h := r.k.header(c); !h.Time.Equal(wall) {
			t.Errorf("an event at %v is told as of %v", wall, h.Time)
		}
		if i := r.k.info(c); i.Uptime != 10*time.Second || !i.StartedAt.Equal(wall.Add(-10*time.Second)) {
			t.Errorf("up for %v, since %v at %v", i.Uptime, i.StartedAt, wall)
		}
		if s := r.k.save(c); !s.At.Equal(wall) || !s.StartedAt.Equal(wall.Add(-10*time.Second)) {
			t.Errorf("saved: %+v at %v", s, wall)
		}
	}
}

// An incarnation that lives is taken over: it keeps its number and its age, and is not counted.
func TestSavedAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got Self
		began := time.Now().Add(-2 * time.Hour)
		events := make(chan Event, 100)
		end := make(chan struct{})
		spec := Spec{
			OnEvent: func(e Event) { events <- e },
			Children: []ChildSpec{{ID: "a", Limit: Quarantining(2, time.Hour), Backoff: Backoff{Kind: Fixed, Base: time.Minute}, Run: func(ctx context.Context) error {
				got, _ = SelfOf(ctx)
				select {
				case <-end:
					return errors.New("boom")
				case <-ctx.Done():
					return nil
				}
			}}},
		}
		s := again(t, spec, Saved{State: Running, Incarnation: 7, Attempt: 3, Adopt: true, StartedAt: began, Counted: []time.Time{began}}, SavedSelf{})
		i := info(t, s)
		if got.Incarnation != 7 || i.Incarnation != 7 || i.Uptime != 2*time.Hour || i.InWindow != 0 {
			t.Errorf("taken over as %+v: %+v", got, i)
		}
		if e, ok := (<-events).(ChildStarted); !ok || !e.Adopted || e.Restart {
			t.Errorf("event %+v", e)
		}
		close(end)
		if i := info(t, s); i.State != Restarting || i.Restarts != 1 {
			t.Errorf("after its end: %+v", i)
		}
		// It had lived for long: that was a success, and the backoff starts over.
		if saved, _, err := s.Save("a"); err != nil || saved.Attempt != 1 {
			t.Errorf("saved: %+v, %v", saved, err)
		}
	})
}

// An incarnation that had ended before it was taken over ran until then.
func TestSavedAdoptEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now().Add(-2 * time.Hour)
		var exits []time.Duration
		spec := Spec{
			OnEvent: func(e Event) {
				if e, ok := e.(ChildExited); ok {
					exits = append(exits, e.Uptime)
				}
			},
			Children: []ChildSpec{{
				ID: "a", Limit: Quarantining(9, time.Hour), Backoff: Backoff{Kind: Fixed, Base: time.Minute},
				Run: func(ctx context.Context) error {
					self, _ := SelfOf(ctx)
					time.Sleep(time.Duration(self.Incarnation-7) * time.Second)
					return errors.New("boom")
				},
			}},
		}
		s := again(t, spec, Saved{
			State: Running, Incarnation: 7, Attempt: 3, Adopt: true, StartedAt: began, EndedAt: began.Add(3 * time.Second),
		}, SavedSelf{})
		synctest.Wait()
		// It was no success: the backoff goes on.
		if saved, _, err := s.Save("a"); err != nil || saved.Attempt != 4 {
			t.Errorf("saved: %+v, %v", saved, err)
		}
		time.Sleep(62 * time.Second)
		synctest.Wait()
		if want := []time.Duration{3 * time.Second, time.Second}; !slices.Equal(exits, want) {
			t.Errorf("uptimes %v, want %v", exits, want)
		}
	})
}

// The end of an incarnation whose start time is unknown is not a success: the backoff goes on.
func TestSavedAdoptUnknownStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ended := range []time.Time{{}, time.Now()} {
			var uptime time.Duration
			spec := Spec{
				OnEvent: func(e Event) {
					if e, ok := e.(ChildExited); ok {
						uptime = e.Uptime
					}
				},
				Children: []ChildSpec{{
					ID: "a", Limit: Quarantining(9, time.Hour), Backoff: Backoff{Kind: Fixed, Base: time.Minute},
					Run: func(ctx context.Context) error { return errors.New("boom") },
				}},
			}
			saved := Saved{State: Running, Incarnation: 7, Attempt: 3, Adopt: true, EndedAt: ended}
			s := again(t, spec, saved, SavedSelf{})
			synctest.Wait()
			if saved, _, err := s.Save("a"); err != nil || saved.Attempt != 4 || uptime != 0 {
				t.Errorf("ended %v: uptime %v, saved %+v, %v; want no uptime, attempt 4", ended, uptime, saved, err)
			}
		}
	})
}

// A time that was over before this life began is over, not missing.
func TestSavedTimeIsOver(t *testing.T) {
	stay := func(ctx context.Context) error { <-ctx.Done(); return nil }
	for _, state := range []State{Restarting, Quarantined} {
		t.Run(state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := time.Now()
				saved := Saved{At: now.Add(-time.Hour), State: state, Incarnation: 3, Restarts: 2, NextAt: now.Add(-time.Minute)}
				s := again(t, Spec{Children: []ChildSpec{{ID: "a", Run: stay, Limit: Quarantining(5, time.Hour)}}}, saved, SavedSelf{})
				if i := info(t, s); i.State != Running || i.Incarnation != 4 {
					t.Errorf("%v, incarnation %d; it has to run, as incarnation 4", i.State, i.Incarnation)
				}
			})
		})
	}
}

// A quarantine that was saved ends at once if the limit of now has room.
func TestSavedQuarantineOfAnotherLimit(t *testing.T) {
	for _, tt := range []struct {
		limit Limit
		want  State
	}{{Quarantining(1, time.Hour), Quarantined}, {Quarantining(2, time.Hour), Running}, {Limit{Max: Unlimited}, Running}} {
		synctest.Test(t, func(t *testing.T) {
			now := time.Now()
			s, err := Start(t.Context(), Spec{Children: []ChildSpec{{
				ID: "a", Run: idle, Limit: tt.limit,
				Saved: &Saved{At: now, State: Quarantined, Reason: ReasonLimitQuarantine, Incarnation: 1, NextAt: now.Add(time.Hour), Counted: []time.Time{now}},
			}}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { s.Stop(); s.Wait() }()
			synctest.Wait()
			if i, err := s.Child("a"); err != nil || i.State != tt.want {
				t.Errorf("with %v it is %v, %v, want %v", tt.limit, i.State, err, tt.want)
			}
		})
	}
}
