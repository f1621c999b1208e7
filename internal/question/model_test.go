package question

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
)

// modelQuestion is the model of a question.
type modelQuestion struct {
	from, text, key, byDefault string
	due                        time.Time
	state                      State
	answer, by                 string
	taken                      bool
}

// With store faults, restarts at any time and a running clock, each question ends once, and Ended
// is called once.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 60).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) { runSteps(t, seed, steps) })
	})
}

// step is one action. Steps are drawn before the bubble's clock runs.
type step struct {
	what, from, text, key, answer string
	n                             uint64
	within, pause                 time.Duration
}

func drawStep(t *rapid.T) step {
	minutes := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 10).Draw(t, name)) * time.Minute
	}
	return step{
		what:   rapid.SampledFrom([]string{"ask", "ask", "ask", "answer", "answer", "withdraw", "take", "sleep", "reopen", "full"}).Draw(t, "what"),
		from:   rapid.SampledFrom([]string{"t/a", "t/b"}).Draw(t, "from"),
		text:   rapid.SampledFrom([]string{"x", "y"}).Draw(t, "text"),
		key:    rapid.SampledFrom([]string{"", "", "k"}).Draw(t, "key"),
		answer: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "answer"),
		n:      rapid.Uint64Range(1, 12).Draw(t, "n"),
		within: minutes("within"), pause: minutes("pause"),
	}
}

func runSteps(t *testing.T, seed uint64, steps []step) {
	inner, e := memory.New(), &endRecorder{}
	defer inner.Close()
	s := storetest.NewFaults(inner, seed, storetest.Rates{Unknown: 0.2, Conflict: 0.2})
	d := open(t, s, e)
	defer func() { d.Close() }()
	var model []*modelQuestion // by number - 1
	var ends []string
	end := func(n int, state State, answer, by string) {
		m := model[n]
		m.state, m.answer, m.by = state, answer, by
		ends = append(ends, fmt.Sprintf("%s %s %q by %q, waited false", id(uint64(n+1)), state, answer, by))
	}
	lapse := func() {
		var due []int
		for n, m := range model {
			if m.state == Open && !m.due.IsZero() && !time.Now().Before(m.due) {
				due = append(due, n)
			}
		}
		for _, n := range due {
			if m := model[n]; m.byDefault != "" {
				end(n, Answered, m.byDefault, ByDeadline)
			} else {
				end(n, Expired, "", "")
			}
		}
	}
	at := func(n uint64) *modelQuestion {
		if n <= uint64(len(model)) {
			return model[n-1]
		}
		return nil
	}
	// wantErr returns the expected error of a change by people, or by the agent itself.
	wantErr := func(st step, own bool) error {
		switch m := at(st.n); {
		case m == nil || own && m.from != st.from:
			return ErrNotFound
		case m.state != Open:
			return ErrEnded
		}
		return nil
	}
	ctx := t.Context()
	for i, st := range steps {
		switch st.what {
		case "ask":
			a := Draft{From: st.from, Text: st.text, Key: st.key, Within: st.within}
			if a.Within > 0 {
				a.Within += 15 * time.Second
			}
			if st.within > 0 && st.answer == "1" {
				a.Default = "1"
			}
			var same *modelQuestion
			n := slices.IndexFunc(model, func(m *modelQuestion) bool { return m.from == st.from && st.key != "" && m.key == st.key })
			if n < 0 {
				n = slices.IndexFunc(model, func(m *modelQuestion) bool {
					return m.from == st.from && m.text == st.text && (m.state == Open || m.state == Answered && !m.taken)
				})
			}
			if n >= 0 {
				same = model[n]
			}
			q, fresh, err := d.Ask(ctx, a)
			switch {
			case same != nil && same.text != st.text:
				if !errors.Is(err, ErrInvalid) {
					t.Fatalf("step %d %+v: %v", i, st, err)
				}
			case same != nil:
				if err != nil || fresh || q.ID != id(uint64(n+1)) || q.State != same.state || q.Answer != same.answer {
					t.Fatalf("step %d %+v: %+v, %v", i, st, q, err)
				}
			default:
				m := &modelQuestion{from: st.from, text: st.text, key: st.key, byDefault: a.Default, state: Open}
				if st.within > 0 {
					m.due = time.Now().Add(st.within)
				}
				if model = append(model, m); err != nil || !fresh || q.ID != id(uint64(len(model))) {
					t.Fatalf("step %d %+v: %+v, %v", i, st, q, err)
				}
				// The deadline counts from the time of asking, before the store's retries.
				if m.due = q.Deadline; (st.within > 0) != !q.Deadline.IsZero() {
					t.Fatalf("step %d %+v: %+v", i, st, q)
				}
			}
		case "answer":
			want := wantErr(st, false)
			if _, err := d.Answer(ctx, id(st.n), st.answer, "ann"); !errors.Is(err, want) {
				t.Fatalf("step %d %+v: %v, want %v", i, st, err, want)
			} else if want == nil {
				end(int(st.n-1), Answered, st.answer, "ann")
			}
		case "withdraw":
			want := wantErr(st, true)
			if _, err := d.Withdraw(ctx, st.from, id(st.n)); !errors.Is(err, want) {
				t.Fatalf("step %d %+v: %v, want %v", i, st, err, want)
			} else if want == nil {
				end(int(st.n-1), Withdrawn, "", "")
			}
		case "take":
			m := at(st.n)
			_, err := d.Take(ctx, st.from, id(st.n))
			if known := m != nil && m.from == st.from; known != (err == nil) {
				t.Fatalf("step %d %+v: %v", i, st, err)
			} else if known && m.state != Open {
				m.taken = true
			}
		case "sleep":
			time.Sleep(st.pause)
		case "reopen":
			d.Close()
			time.Sleep(st.pause)
			d = open(t, s, e)
		case "full":
			s.Fail(store.ErrFull)
			if _, err := d.Answer(ctx, id(st.n), st.answer, "ann"); err == nil {
				t.Fatalf("step %d: answered on a full disk", i)
			}
			s.Fail(nil)
		}
		// The store's retries take milliseconds. Steps end at half minutes, and deadlines lie
		// between them.
		const beat = time.Minute / 2
		time.Sleep(time.Until(time.Now().Truncate(beat).Add(2 * beat)))
		synctest.Wait()
		lapse()
		got := strings.FieldsFunc(e.take(), func(r rune) bool { return r == ';' })
		for i := range got {
			got[i] = strings.TrimSpace(got[i])
		}
		slices.Sort(got)
		slices.Sort(ends)
		if !slices.Equal(got, ends) {
			t.Fatalf("step %d %+v: told %q, want %q", i, st, got, ends)
		}
		ends = nil
		all := d.List("", true)
		if len(all) != len(model) {
			t.Fatalf("step %d: %d questions, want %d", i, len(all), len(model))
		}
		for n, q := range all {
			if m := model[n]; q.State != m.state || q.Answer != m.answer || q.By != m.by || q.TakenAt.IsZero() == m.taken {
				t.Fatalf("step %d: %+v, want %+v", i, q, m)
			}
		}
	}
}
