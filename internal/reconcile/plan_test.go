package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/spec"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// printOf is the print of an agent that runs a command, with a variable.
func printOf(command, model string) spec.Hash {
	a := spec.Agent{Command: []string{command}, Env: map[string]string{"MODEL": model}}
	return a.Hash(nil)
}

// reading is the print of an agent that reads a file with that content.
func reading(content string) spec.Hash {
	a := spec.Agent{Command: []string{"x"}, Files: []string{"/notes"}}
	return a.Hash(func(string) string { return content })
}

func seen(all ...*Observed) map[string]*Observed {
	m := make(map[string]*Observed)
	for _, o := range all {
		m[o.Path] = o
	}
	return m
}

func TestPlan(t *testing.T) {
	a, b := printOf("x", "opus"), printOf("x", "haiku")
	want := func(change ...func(*Desired)) []Desired {
		d := Desired{Path: "t/a", Hash: a, DrainTimeout: time.Minute}
		for _, f := range change {
			f(&d)
		}
		return []Desired{d}
	}
	for _, tt := range []struct {
		name     string
		desired  []Desired
		observed map[string]*Observed
		busy     string
		want     string // actions; delays
	}{
		{"not running", want(), seen(&Observed{Path: "t/a", Phase: Pending}), "", "start t/a: it does not run;"},
		{"not running, and being started", want(), seen(&Observed{Path: "t/a", Phase: Pending}), "t/a", ";"},
		{"not running, and its supervisor being stopped", want(), seen(&Observed{Path: "t/a", Phase: Pending}), "t", ";"},
		{"being started, and no longer to run", want(func(d *Desired) { d.Suspended = true }), seen(&Observed{Path: "t/a", Phase: Managed}), "+t/a", "suspend t/a: the file suspends it;"},
		{"about to be started, and no longer to run", want(func(d *Desired) { d.Suspended = true }), seen(&Observed{Path: "t/a", Phase: Pending, Adoptable: true}), "+t/a", ";"},
		{"being started with its supervisor, and no longer to run", want(func(d *Desired) { d.Suspended = true }), seen(&Observed{Path: "t/a", Phase: Managed}), "+t", "suspend t/a: the file suspends it;"},
		{"being started, and no longer wanted", nil, seen(&Observed{Path: "t/a", Phase: Managed}), "+t/a", "stop t/a: it is no longer wanted;"},
		{"being started, and drifted", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: b}), "+t/a", ";"},
		{"being stopped, and no longer to run", want(func(d *Desired) { d.Suspended = true }), seen(&Observed{Path: "t/a", Phase: Managed}), "t/a", ";"},
		{"runs already, and waits", want(func(d *Desired) { d.Needs = []string{"t/db"} }), seen(&Observed{Path: "t/a", Phase: Pending, Adoptable: true}), "", "start t/a: it runs, and is taken over;"},
		{"runs already, and is suspended", want(func(d *Desired) { d.Suspended = true }), seen(&Observed{Path: "t/a", Phase: Pending, Adoptable: true}), "", "start t/a: it runs, and is taken over;"},
		{"healthy", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: a}), "", ";"},
		{"unknown", want(), seen(&Observed{Path: "t/a", Phase: Unknown, Hash: b, Requested: true}), "", ";"},
		{"not seen", want(), seen(), "", ";"},
		{"kept by its supervisor", want(), seen(&Observed{Path: "t/a", Phase: Managed}), "", ";"},
		{"down for good", want(), seen(&Observed{Path: "t/a", Phase: Completed}), "", ";"},
		{"orphan", nil, seen(&Observed{Path: "t/a", Phase: Running}), "", "stop t/a: it is no longer wanted;"},
		{"orphan that does not run", nil, seen(&Observed{Path: "t/a", Phase: Completed}), "", "stop t/a: it is no longer wanted;"},
		{"unknown orphan", nil, seen(&Observed{Path: "t/a", Phase: Unknown}), "", ";"},
		{"orphans in an orphan", nil, seen(&Observed{Path: "t/s", Phase: Running}, &Observed{Path: "t/s/a", Phase: Running}, &Observed{Path: "t/s2", Phase: Running}), "",
			"stop t/s: it is no longer wanted, stop t/s2: it is no longer wanted;"},
		{"an orphan beside an orphan with a name that begins alike", nil, seen(&Observed{Path: "t/s", Phase: Running}, &Observed{Path: "t/s-x", Phase: Running}, &Observed{Path: "t/s/a", Phase: Running}), "",
			"stop t/s: it is no longer wanted, stop t/s-x: it is no longer wanted;"},
		{"stranger", nil, seen(&Observed{Path: "t/a", Phase: Running, Orphan: true}), "", "stop t/a: no supervisor knows it;"},
		{"stranger, while something of its name is to start", want(), seen(&Observed{Path: "t/a", Phase: Pending}, &Observed{Path: "t/s/a", Phase: Running, Orphan: true}), "",
			"stop t/s/a: no supervisor knows it;t/a waits for the end of t/s/a"},
		{"moved", want(), seen(&Observed{Path: "t/a", Phase: Pending}, &Observed{Path: "t/s/a", Phase: Running}), "t/s/a", ";t/a waits for the end of t/s/a"},
		{"moved into a supervisor that is new", []Desired{{Path: "t/s"}, {Path: "t/s/a"}, {Path: "t/s2"}}, seen(&Observed{Path: "t/a", Phase: Running}, &Observed{Path: "t/s", Phase: Pending}, &Observed{Path: "t/s2", Phase: Pending}), "",
			"stop t/a: it is no longer wanted, start t/s2: it does not run;t/s waits for the end of t/a"},
		{"retired", want(func(d *Desired) { d.Retired = true }), seen(&Observed{Path: "t/a", Phase: Running, Hash: b, Requested: true}), "", ";"},
		{"retired, and down", want(func(d *Desired) { d.Retired = true }), seen(&Observed{Path: "t/a", Phase: Pending}), "", ";"},
		{"retired, and runs already", want(func(d *Desired) { d.Retired = true }), seen(&Observed{Path: "t/a", Phase: Pending, Adoptable: true}), "", "start t/a: it runs, and is taken over;"},
		{"retired there, and wanted here", append(want(), Desired{Path: "t/s/a", Retired: true}), seen(&Observed{Path: "t/a", Phase: Pending}, &Observed{Path: "t/s/a", Phase: Running}), "", ";t/a waits for the end of t/s/a"},
		{"retired there, and wanted in a supervisor that is new", []Desired{{Path: "t/a", Retired: true}, {Path: "t/s"}, {Path: "t/s/a"}}, seen(&Observed{Path: "t/a", Phase: Running}, &Observed{Path: "t/s", Phase: Pending}), "",
			"start t/s: it does not run;"},
		{"an instance of a pool, as another one has that leaves", want(func(d *Desired) { d.Instance = true }), seen(&Observed{Path: "t/a", Phase: Pending}, &Observed{Path: "t/s/a", Phase: Running}), "t/s/a", "start t/a: it does not run;"},
		{"an instance of a pool, as one that is retired has", append(want(), Desired{Path: "t/s/a", Retired: true, Instance: true}), seen(&Observed{Path: "t/a", Phase: Pending}, &Observed{Path: "t/s/a", Phase: Running}), "", "start t/a: it does not run;"},
		{"no print", want(), seen(&Observed{Path: "t/a", Phase: Running}), "", ";"},
		{"drifted", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: b}), "", "renew t/a: drifted: env.MODEL;"},
		{"held, and changed since", want(), seen(&Observed{Path: "t/a", Phase: Managed, Held: true, Hash: b}), "", "release t/a: changed since it failed: env.MODEL;"},
		{"held, and the same", want(), seen(&Observed{Path: "t/a", Phase: Managed, Held: true, Hash: a}), "", ";"},
		{"held, and it is not known what has failed", want(), seen(&Observed{Path: "t/a", Phase: Managed, Held: true}), "", ";"},
		{"held and changed, and not to run", want(func(d *Desired) { d.Suspended = true }), seen(&Observed{Path: "t/a", Phase: Managed, Held: true, Hash: b}), "", "suspend t/a: the file suspends it;"},
		{"being restarted, and changed", want(), seen(&Observed{Path: "t/a", Phase: Managed, Hash: b}), "", ";"},
		{"drifted, and looks for drains", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: b, Asks: true}), "", "drain t/a: drifted: env.MODEL;"},
		{"drifted, and is drained already", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: b, Asks: true, Draining: true}), "", ";"},
		{"drifted, with no time to drain", want(func(d *Desired) { d.DrainTimeout = 0 }), seen(&Observed{Path: "t/a", Phase: Running, Hash: b, Asks: true}), "", "renew t/a: drifted: env.MODEL;"},
		{"moves", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: a, Moves: "it moves to node b"}), "", "renew t/a: it moves to node b;"},
		{"moves, and looks for drains", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: a, Moves: "it moves to node b", Asks: true}), "", "drain t/a: it moves to node b;"},
		{"drifted, and moves", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: b, Moves: "it moves to node b"}), "", "renew t/a: drifted: env.MODEL;"},
		{"moves, and was started too often", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: a, Moves: "it moves to node b", RoomAt: now.Add(1)}), "", "renew t/a: it moves to node b;"},
		{"moves, and is held", want(), seen(&Observed{Path: "t/a", Phase: Managed, Held: true, Hash: a, Moves: "it moves to node b"}), "", ";"},
		{"drifted, and started too often", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: b, RoomAt: now.Add(1)}), "", "renew t/a: drifted: env.MODEL;"},
		{"a file has changed, and started too often", want(func(d *Desired) { d.Hash = reading("new") }), seen(&Observed{Path: "t/a", Phase: Running, Hash: reading("old"), RoomAt: now.Add(1)}), "",
			";t/a (drifted) was started too often and goes on as it is until 2026-01-02 03:04:05"},
		{"a file has changed, and there is room again", want(func(d *Desired) { d.Hash = reading("new") }), seen(&Observed{Path: "t/a", Phase: Running, Hash: reading("old"), RoomAt: now}), "", "renew t/a: drifted: files./notes;"},
		{"asks for a restart, and started too often", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: a, Requested: true, RoomAt: now.Add(1)}), "",
			";t/a (restart requested) was started too often and goes on as it is until 2026-01-02 03:04:05"},
		{"restart requested", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: a, Requested: true, Request: "context is full"}), "", "renew t/a: it has asked for that: context is full;"},
		{"idle", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: a, Idle: 61 * time.Second}), "", "end t/a: idle: no input or output for 1m1s;"},
		{"idle, and started too often", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: a, Idle: time.Hour, RoomAt: now.Add(1)}), "", "end t/a: idle: no input or output for 1h0m0s;"},
		{"idle, and asked to finish", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: a, Idle: time.Hour, Draining: true}), "", ";"},
		{"idle, and not to run", want(func(d *Desired) { d.Suspended = true }), seen(&Observed{Path: "t/a", Phase: Running, Idle: time.Hour}), "", "suspend t/a: the file suspends it;"},
		{"idle, and of unknown state", want(), seen(&Observed{Path: "t/a", Idle: time.Hour}), "", ";"},
		{"everything, in Gas City's order", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: b, Requested: true, Idle: time.Hour}), "", "renew t/a: it has asked for that;"},
		{"everything but a request", want(), seen(&Observed{Path: "t/a", Phase: Running, Hash: b, Asks: true, Idle: time.Hour}), "", "end t/a: idle: no input or output for 1h0m0s;"},
		{"suspended by the file", want(func(d *Desired) { d.Suspended = true }), seen(&Observed{Path: "t/a", Phase: Running, Hash: b}), "", "suspend t/a: the file suspends it;"},
		{"suspended, and waiting for its restart", want(func(d *Desired) { d.Suspended = true }), seen(&Observed{Path: "t/a", Phase: Managed}), "", "suspend t/a: the file suspends it;"},
		{"suspended, and down", want(func(d *Desired) { d.Suspended = true }), seen(&Observed{Path: "t/a", Phase: Pending}), "", ";"},
		{"needs what is ready", want(func(d *Desired) { d.Needs = []string{"t/db"} }), seen(&Observed{Path: "t/a", Phase: Pending}, &Observed{Path: "t/db", Phase: Unknown, Ready: true}), "", "start t/a: it does not run;"},
		{"needs what is not", want(func(d *Desired) { d.Needs = []string{"t/db"} }), seen(&Observed{Path: "t/a", Phase: Pending}, &Observed{Path: "t/db", Phase: Unknown}), "", ";t/a waits for t/db"},
		{"comes after what has settled", want(func(d *Desired) { d.After = "t/db" }), seen(&Observed{Path: "t/a", Phase: Pending}, &Observed{Path: "t/db", Phase: Completed, Settled: true}), "", "start t/a: it does not run;"},
		{"comes after what has not", want(func(d *Desired) { d.After = "t/db" }), seen(&Observed{Path: "t/a", Phase: Pending}, &Observed{Path: "t/db", Phase: Unknown, Ready: true}), "", ";t/a waits for t/db"},
		{"orphans, one after the other", nil, seen(&Observed{Path: "t/after", Phase: Running}, &Observed{Path: "t/before", Phase: Running}), "",
			"stop t/after: it is no longer wanted;t/before waits for the end of t/after"},
		{"orphans, the other one is gone", nil, seen(&Observed{Path: "t/before", Phase: Running}), "", "stop t/before: it is no longer wanted;"},
		{"needs what is not seen", want(func(d *Desired) { d.Needs = []string{"t/db"} }), seen(&Observed{Path: "t/a", Phase: Pending}), "", ";t/a waits for t/db"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			busy, starts := map[string]bool{}, map[string]bool{}
			if at, starting := strings.CutPrefix(tt.busy, "+"); starting {
				starts[at] = true
			} else {
				busy[at] = true
			}
			if o := tt.observed["t/db"]; o != nil {
				tt.desired = append(tt.desired, Desired{Path: "t/db"})
			}
			r := Plan(tt.desired, tt.observed, InFlight{Busy: busy, Starting: starts, Before: map[string][]string{"t/before": {"t/gone", "t/after"}}}, now)
			var actions, delays []string
			for _, a := range r.Actions {
				actions = append(actions, a.String())
			}
			for _, d := range r.Delays {
				delays = append(delays, d.String())
			}
			if got := strings.Join(actions, ", ") + ";" + strings.Join(delays, ", "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// When something comes due by itself, the plan says when.
func TestNext(t *testing.T) {
	a := printOf("x", "opus")
	desired := []Desired{{Path: "t/a", Hash: a}, {Path: "t/b", Hash: a}, {Path: "t/c", Hash: a}}
	observed := seen(
		&Observed{Path: "t/a", Phase: Running, Hash: a, Requested: true, RoomAt: now.Add(2 * time.Hour)},
		&Observed{Path: "t/b", Phase: Running, Hash: a, Requested: true, RoomAt: now.Add(time.Hour)},
		&Observed{Path: "t/c", Phase: Running, Hash: a, RoomAt: now.Add(time.Minute)},
	)
	r := Plan(desired, observed, InFlight{}, now)
	if want := now.Add(time.Hour); !r.Next.Equal(want) || len(r.Actions) != 0 {
		t.Errorf("got %v and %v, want %v", r.Next, r.Actions, want)
	}
	if r = Plan(desired, observed, InFlight{}, r.Next); len(r.Actions) != 1 || r.Actions[0].Path != "t/b" {
		t.Errorf("then there is %v to do", r.Actions)
	}
}

// world draws what is wanted and what is.
func world(t *rapid.T) ([]Desired, map[string]*Observed) {
	prints := []spec.Hash{{}, printOf("x", "1"), printOf("x", "2"), printOf("y", "1")}
	paths := []string{"t/a", "t/b", "t/s", "t/s/c", "t/s/d", "t/e"}
	var desired []Desired
	above := map[string]*Desired{} // what is in something is not wanted without it, and suspended with it
	for _, p := range paths {
		if strings.HasPrefix(p, "t/s/") && above["t/s"] == nil {
			continue
		}
		if rapid.Bool().Draw(t, "want "+p) {
			desired = append(desired, Desired{
				Path: p, Suspended: rapid.IntRange(0, 4).Draw(t, "suspended") == 0, Hash: rapid.SampledFrom(prints).Draw(t, "print"),
				Needs:        rapid.SliceOfNDistinct(rapid.SampledFrom(paths), 0, 2, rapid.ID).Draw(t, "needs"),
				DrainTimeout: time.Duration(rapid.IntRange(0, 1).Draw(t, "drain")) * time.Minute,
			})
			d := &desired[len(desired)-1]
			if strings.HasPrefix(p, "t/s/") {
				d.Suspended = d.Suspended || above["t/s"].Suspended
			}
			above[p] = &Desired{Suspended: d.Suspended}
		}
	}
	observed := make(map[string]*Observed)
	for _, p := range append(paths, "t/x", "t/s/x") {
		if rapid.IntRange(0, 4).Draw(t, "see "+p) > 0 {
			o := &Observed{
				Path: p, Phase: Phase(rapid.IntRange(0, 4).Draw(t, "life")), Hash: rapid.SampledFrom(prints).Draw(t, "printed"),
				Asks: rapid.Bool().Draw(t, "asks"), Requested: rapid.IntRange(0, 4).Draw(t, "requested") == 0,
				Draining: rapid.IntRange(0, 4).Draw(t, "draining") == 0,
				RoomAt:   now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "room")) * time.Minute),
			}
			o.Ready = o.Phase == Running
			observed[p] = o
		}
	}
	return desired, observed
}

// Whatever there is: what cannot be told and what is healthy is left alone,
// nothing is done twice at a place, and while what was planned is being done,
// or once it has been done, nothing more is.
func TestPlanIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired, observed := world(t)
		r := Plan(desired, observed, InFlight{}, now)
		if again := Plan(desired, observed, InFlight{}, now); fmt.Sprint(again) != fmt.Sprint(r) {
			t.Fatalf("asked again it says %v instead of %v", again, r)
		}
		busy := make(map[string]bool)
		for _, a := range r.Actions {
			o := observed[a.Path]
			if busy[a.Path] || o == nil || o.Phase == Unknown {
				t.Fatalf("%v, which is %+v", a, o)
			}
			i := slices.IndexFunc(desired, func(d Desired) bool { return d.Path == a.Path })
			if (i < 0) != (a.Kind == Stop) {
				t.Fatalf("%v, which is wanted: %v", a, i >= 0)
			}
			if i >= 0 && o.Phase == Running && !desired[i].Suspended && !o.Requested && len(desired[i].Hash.Changed(o.Hash)) == 0 {
				t.Fatalf("%v, which is healthy", a)
			}
			if a.Counted && o.RoomAt.After(now) {
				t.Fatalf("%v, which its limit does not let start again", a)
			}
			busy[a.Path] = true
		}
		if during := Plan(desired, observed, InFlight{Busy: busy}, now); len(during.Actions) > 0 {
			t.Fatalf("while %v is done: %v", r.Actions, during.Actions)
		}
		end := func(path string) { // with all in it
			maps.DeleteFunc(observed, func(p string, _ *Observed) bool { return strings.HasPrefix(p, path+"/") })
			*observed[path] = Observed{Path: path, Phase: Pending}
		}
		for _, a := range r.Actions { // done
			o := observed[a.Path]
			if o == nil {
				continue // with what it is in
			}
			switch a.Kind {
			case Stop:
				maps.DeleteFunc(observed, func(p string, _ *Observed) bool { return p == a.Path || strings.HasPrefix(p, a.Path+"/") })
			case Suspend:
				end(a.Path)
			case Drain:
				o.Draining = true
			case Start, Renew:
				i := slices.IndexFunc(desired, func(d Desired) bool { return d.Path == a.Path })
				*o = Observed{Path: a.Path, Phase: Running, Ready: true, Hash: desired[i].Hash}
			}
		}
		for n := 0; ; n++ { // waves: what waited for these may start, but nothing else is to be done
			after := Plan(desired, observed, InFlight{}, now)
			if len(after.Actions) == 0 {
				return
			}
			for _, a := range after.Actions {
				if a.Kind != Start && a.Kind != Suspend || n > 2*len(desired) {
					t.Fatalf("after %v: %v", r.Actions, a)
				}
				if a.Kind == Suspend { // waited for the end of what depends on it
					end(a.Path)
					continue
				}
				if observed[a.Path] == nil {
					continue
				}
				observed[a.Path].Phase, observed[a.Path].Ready = Running, true
				observed[a.Path].Hash, observed[a.Path].Requested = spec.Hash{}, false
			}
		}
	})
}

// fleetOf is a healthy fleet.
func fleetOf(n int) ([]Desired, map[string]*Observed) {
	desired, observed := make([]Desired, n), make(map[string]*Observed, n)
	p := printOf("x", "opus")
	for i := range desired {
		path := fmt.Sprintf("t/agent-%05d", i)
		desired[i] = Desired{Path: path, Hash: p, DrainTimeout: time.Minute}
		observed[path] = &Observed{Path: path, Phase: Running, Ready: true, Hash: p}
	}
	return desired, observed
}

func TestHealthyCostsNoMemory(t *testing.T) {
	desired, observed := fleetOf(10_000)
	if n := testing.AllocsPerRun(10, func() { Plan(desired, observed, InFlight{Busy: map[string]bool{}}, now) }); n > 1 {
		t.Errorf("a plan for a healthy fleet allocates %v times", n)
	}
}

func BenchmarkPlan(b *testing.B) {
	desired, observed := fleetOf(10_000)
	b.ReportAllocs()
	for b.Loop() {
		Plan(desired, observed, InFlight{}, now)
	}
}
