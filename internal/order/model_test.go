package order

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/spec"
)

// The guarantees of an engine hold for random inputs.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		overlap := spec.Overlap(rapid.IntRange(0, 2).Draw(rt, "overlap"))
		var gates []Gate
		if rapid.Bool().Draw(rt, "cron") {
			gates = append(gates, at(t, "*/7 * * * *"))
		}
		if rapid.Bool().Draw(rt, "cooldown") {
			gates = append(gates, every(11*time.Minute))
		}
		if rapid.Bool().Draw(rt, "event") {
			gates = append(gates, on("x"))
		}
		if rapid.Bool().Draw(rt, "condition") {
			gates = append(gates, when())
		}
		o := order("a", gates...)
		o.Overlap, o.CatchUp, o.All = overlap, rapid.Bool().Draw(rt, "catch up"), rapid.Bool().Draw(rt, "all")
		s := start(t, o)
		matching, handed, until := 0, 0, uint64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"time passes": func(rt *rapid.T) { s.run(time.Duration(rapid.IntRange(1, 3000).Draw(rt, "seconds")) * time.Second) },
			"events": func(rt *rapid.T) {
				for range rapid.IntRange(1, 5).Draw(rt, "n") {
					s.tell(event.Event{Type: "x"})
					matching++
				}
				s.step()
			},
			"others":  func(*rapid.T) { s.event("y") },
			"restart": func(rt *rapid.T) { s.restart(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "seconds")) * time.Second) },
			"truth":   func(*rapid.T) { s.truth = !s.truth },
			"full":    func(*rapid.T) { s.full = !s.full },
			"suspend": func(*rapid.T) { s.e.Suspend(true); s.step() },
			"resume":  func(*rapid.T) { s.e.Suspend(false); s.step() },
			"by hand": func(*rapid.T) { s.e.Ask("a", "user", nil, s.now); s.step() },
			"set": func(rt *rapid.T) {
				s.now.Wall = s.now.Wall.Add(time.Duration(rapid.IntRange(-7200, 7200).Draw(rt, "seconds")) * time.Second)
				s.step()
			},
			"take long": func(rt *rapid.T) { s.length = time.Duration(rapid.IntRange(0, 2000).Draw(rt, "seconds")) * time.Second },
			"": func(rt *rapid.T) {
				if overlap != Allow && s.most > 1 {
					rt.Fatalf("%d runs at once", s.most)
				}
				for _, b := range s.given["a"] {
					if b.After < until {
						rt.Fatalf("a batch after %d, when all up to %d were handed over", b.After, until)
					}
					handed, until = handed+b.Count, b.Until
				}
				clear(s.given)
				if o.Gate(Event) != nil && handed > matching {
					rt.Fatalf("%d events handed over, of %d", handed, matching)
				}
			},
		})
		// In the end all pending events are handed to runs.
		s.full, s.truth, s.length = false, true, 0
		s.e.Suspend(false)
		s.run(3 * time.Hour)
		for _, b := range s.given["a"] {
			handed += b.Count
		}
		if o.Gate(Event) != nil && handed != matching {
			rt.Fatalf("%d events handed over, of %d", handed, matching)
		}
	})
}
