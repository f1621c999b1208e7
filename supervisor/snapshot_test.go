package supervisor

import (
	"testing"
	"time"
)

// TestSnapshot: an event carries the state that its step has left behind.
func TestSnapshot(t *testing.T) {
	delayed := one("a")
	delayed.Children[0].Backoff = Backoff{Kind: Fixed, Base: time.Minute}
	temporary := one("a")
	temporary.Children[0].Restart = Temporary
	for name, row := range map[string]struct {
		spec  Spec
		do    func(r *rig)
		want  State
		gen   uint64
		more  func(s Snapshot, now time.Time) bool
		fewer bool // it is no longer listed
	}{
		"started":            {spec: one("a"), do: func(*rig) {}, want: Running, gen: 1},
		"restarted at once":  {spec: one("a"), do: func(r *rig) { r.crash("a") }, want: Running, gen: 2},
		"suspended":          {spec: one("a"), do: func(r *rig) { r.suspend("a"); r.gone("a") }, want: Suspended, gen: 1},
		"temporary, at work": {spec: temporary, do: func(*rig) {}, want: Running, gen: 1},
		"temporary, ended":   {spec: temporary, do: func(r *rig) { r.crash("a") }, fewer: true},
		"in its delay": {
			spec: delayed, do: func(r *rig) { r.crash("a") }, want: Restarting, gen: 1,
			more: func(s Snapshot, now time.Time) bool {
				return s.Child.NextAt.Equal(now.Add(time.Minute)) && s.Child.Attempt == 1 && s.Child.LastExit.Kind == Failure
			},
		},
		"quarantined": {
			spec: limited(one("a"), Quarantining(1, time.Hour)), do: func(r *rig) { r.crash("a") }, want: Quarantined, gen: 1,
			more: func(s Snapshot, now time.Time) bool { return len(s.Child.Counted) == 1 && !s.Child.NextAt.IsZero() },
		},
		"paused": {
			spec: limited(one("a"), Pausing(1, time.Hour)), do: func(r *rig) { r.crash("a") }, want: Paused, gen: 1,
			more: func(s Snapshot, _ time.Time) bool { return s.Self.Paused && len(s.Self.Counted) == 1 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, row.spec)
			row.do(r)
			var last EventHeader
			for _, e := range r.seen {
				if h := e.Header(); h.ID == "a" {
					last = h
				}
			}
			s, now := last.After, r.k.epoch.Add(r.k.now)
			if s == nil || s.Listed == row.fewer || s.Child.State != row.want || s.Child.Incarnation != row.gen {
				t.Fatalf("got %+v", s)
			}
			if row.more != nil && !row.more(*s, now) {
				t.Errorf("at %v: got %+v", now, *s)
			}
		})
	}
}

// TestSnapshotOfStep: events of one step agree, also on siblings and the supervisor.
func TestSnapshotOfStep(t *testing.T) {
	r := newRig(t, limited(one("a"), Pausing(0, time.Hour)))
	from := len(r.seen)
	r.crash("a") // an exit and a limit
	events := r.seen[from:]
	if len(events) != 2 || events[0].Header().After != events[1].Header().After {
		t.Errorf("got %v", events)
	}
	from = len(r.seen)
	r.resume()
	events = r.seen[from:]
	if len(events) == 0 {
		t.Fatal("no event of the end of the pause")
	}
	if own := events[0].Header(); own.ID != "" || own.After.Listed || own.After.Self.Paused || !own.After.Self.Probing {
		t.Errorf("got %+v of %v", own.After, events)
	}
}

// TestEventsWithoutHook: without a hook there are neither events nor snapshots.
func TestEventsWithoutHook(t *testing.T) {
	s, err := Start(t.Context(), one("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Stop(); s.Wait() }()
	var prepared int
	err = s.do(func() { prepared = cap(s.core.events) + cap(s.core.pending) })
	if err != nil || prepared > 0 {
		t.Errorf("%d events and snapshots were prepared, %v", prepared, err)
	}
}
