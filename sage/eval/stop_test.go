package eval_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/supervisor"
)

// slow delays writes of beliefs until their context ends.
type slow struct {
	host.Beliefs
	takes time.Duration
}

func (s slow) SaveBeliefs(ctx context.Context, a host.Agent, values map[string]string) error {
	select {
	case <-time.After(s.takes):
		return s.Beliefs.SaveBeliefs(ctx, a, values)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A stop is not an error, so on error does not run. A write that has begun is finished within the
// time for a stop.
func TestStopIsNoError(t *testing.T) {
	const text = `
		agent Sub { on start { loop { sleep_ms(1000); } } }
		agent Writer { @persistent n: Int
			on start { print("was {self.n}"); self.n = self.n + 1; print("now {self.n}"); loop { sleep_ms(1000); } }
			on error(e) { print("error: {e.message}"); } on resting { print("rests"); } }
		agent Waiter { on start { let s = summon Sub { }; let r = try await s; } on error(e) { print("error: {e.message}"); } }
		supervisor Root { strategy: OneForOne children { Waiter { } Writer { } } } run Root;`
	for name, c := range map[string]struct {
		takes       time.Duration
		first, next string
	}{
		"in time":  {2 * time.Second, "was 0\nnow 1\nrests\n", "was 1\nnow 2\nrests\n"},
		"too slow": {time.Minute, "was 0\n", "was 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(t, text)
			beliefs := slow{host.NewMemory(), c.takes}
			for _, want := range []string{c.first, c.next} {
				synctest.Test(t, func(t *testing.T) {
					var out output
					in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard), Beliefs: beliefs})
					defer in.Close()
					spec, err := in.Spec()
					if err != nil {
						t.Fatal(err)
					}
					s, err := supervisor.Launch(t.Context(), spec)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
					s.Stop()
					if err := s.Wait(); err != nil && name == "in time" {
						t.Error(err)
					}
					if out.String() != want {
						t.Errorf("%s, want %s", out.String(), want)
					}
				})
			}
		})
	}
}

// If one monitor of the guardian reaches the limit, the other is stopped. That is not an alert.
func TestGuardianCountsNoAlerts(t *testing.T) {
	const text = `
		agent QueryMonitor { @persistent n: Int @persistent alerts: Int on start { self.n += 1; yield(0); } on error(e) { self.alerts += 1; print("alert"); yield(-1); } }
		agent PoolMonitor { on start { yield(0); } }
		supervisor DbGuardian { strategy: OneForOne children { QueryMonitor { } PoolMonitor { } } } run DbGuardian;`
	p := compile(t, text)
	for range 20 {
		var out output
		in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard), Beliefs: slow{host.NewMemory(), time.Millisecond}})
		if err := in.Run(t.Context()); err == nil {
			t.Error("no limit was reached")
		}
		in.Close()
		if out.String() != "" {
			t.Fatal(out.String())
		}
	}
}
