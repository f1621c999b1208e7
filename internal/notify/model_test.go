package notify

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/spec"
)

// TestModel plays needs that come and go, deliveries that fail and daemons that restart, and compares what is told with
// what must be: each occurrence once, not in quiet hours, and in the end all that is still there.
func TestModel(t *testing.T) {
	states := []string{"quarantined", "given_up", "crash_loop", "paused"}
	rapid.Check(t, func(r *rapid.T) {
		p := newPerson(t)
		p.n.Digest = time.Duration(rapid.IntRange(0, 300).Draw(r, "digest")) * time.Second
		if rapid.Bool().Draw(r, "quiet") {
			p.n.Quiet = spec.Hours{From: 22 * 60, To: 7 * 60}
		}
		occurrence := map[string]int{} // of a subject: counts each time that it begins or changes its kind
		told := map[string]int{}       // the occurrence that was told
		perHour := map[string][]time.Time{}
		kinds := map[string]spec.NotifyKind{}
		find := func(subject string) int {
			for i, n := range p.needs {
				if n.Subject == subject {
					return i
				}
			}
			return -1
		}
		// step decides; the delivery works or not.
		step := func(works bool) {
			d := p.decide()
			if p.state = d.State; d.Message == nil {
				return
			}
			if p.n.Quiet.Contain(spec.ClockOf(p.now)) {
				r.Fatalf("told at %v, in quiet hours", p.now)
			}
			if !works {
				p.state = p.state.Failed("x", p.now)
				return
			}
			p.state = p.state.Sent(d.Message, p.now)
			for _, key := range d.Message.keys {
				if find(key) < 0 {
					r.Fatalf("told of %s, which is over", key)
				}
				if told[key] == occurrence[key] {
					r.Fatalf("told of %s twice", key)
				}
				told[key] = occurrence[key]
				times := append(perHour[key], p.now)
				if n := len(times) - 1 - maxPerHour; n >= 0 && p.now.Sub(times[n]) < time.Hour {
					r.Fatalf("%s is told of more than %d times an hour", key, maxPerHour)
				}
				perHour[key] = times
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"need": func(r *rapid.T) {
				subject := fmt.Sprintf("t/%d", rapid.IntRange(0, 4).Draw(r, "subject"))
				n := ill(subject, rapid.SampledFrom(states).Draw(r, "state"))
				i := find(subject)
				if i < 0 {
					p.needs = append(p.needs, n)
				} else {
					p.needs[i] = n
				}
				if i < 0 || kinds[subject] != KindOf(n) {
					occurrence[subject]++
					kinds[subject] = KindOf(n)
				}
				step(true)
			},
			"over": func(r *rapid.T) {
				if len(p.needs) == 0 {
					r.Skip()
				}
				i := rapid.IntRange(0, len(p.needs)-1).Draw(r, "which")
				p.needs = append(p.needs[:i:i], p.needs[i+1:]...)
				step(true)
			},
			"time": func(r *rapid.T) {
				p.now = p.now.Add(time.Duration(rapid.IntRange(1, 40000).Draw(r, "seconds")) * time.Second / 10)
				step(rapid.Bool().Draw(r, "works"))
			},
			"restart": func(r *rapid.T) {
				value, err := json.Marshal(p.state)
				if err != nil {
					r.Fatal(err)
				}
				p.state = State{}
				if err := json.Unmarshal(value, &p.state); err != nil {
					r.Fatal(err)
				}
				step(true)
			},
		})
		for range 100 { // then nothing changes any more
			d := p.decide()
			if d.Message == nil && d.Next.IsZero() {
				break
			}
			if d.Message == nil {
				if !d.Next.After(p.now) {
					r.Fatalf("nothing is told at %v, and the next decision is at %v", p.now, d.Next)
				}
				p.now = d.Next
			}
			step(true)
		}
		for _, n := range p.needs {
			if told[n.Subject] != occurrence[n.Subject] {
				r.Fatalf("%s was not told of", n.Subject)
			}
		}
	})
}
