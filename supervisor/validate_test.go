package supervisor

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// Group 4 of OTP's suite, and what Go adds: each fault names its place.
func TestOTPValidation(t *testing.T) {
	process := func(context.Context) (Process, error) { return newFake(), nil }
	child := func(f func(*ChildSpec)) Spec {
		s := one("a", "b")
		f(&s.Children[1])
		return s
	}
	rows := []struct {
		name, path, field string
		spec              Spec
	}{
		{"4.1 no start", "root/b", "Run", child(func(c *ChildSpec) { c.Run = nil })},
		{"4.1 two starts", "root/b", "Run", child(func(c *ChildSpec) { c.Start = process })},
		{"4.1 restart", "root/b", "Restart", child(func(c *ChildSpec) { c.Restart = 3 })},
		{"4.1 shutdown", "root/b", "Shutdown", child(func(c *ChildSpec) { c.Shutdown = -10 })},
		{"4.1 type", "root/b", "Type", child(func(c *ChildSpec) { c.Type = 2 })},
		{"4.1 abandon", "root/b", "OnAbandon", child(func(c *ChildSpec) { c.OnAbandon = 2 })},
		{"4.1 no ID", "root/", "ID", child(func(c *ChildSpec) { c.ID = "" })},
		{"4.1 a slash", "root/b/c", "ID", child(func(c *ChildSpec) { c.ID = "b/c" })},
		{"4.1 start timeout", "root/b", "StartTimeout", child(func(c *ChildSpec) { c.StartTimeout = -1 })},
		{"4.1 a timeout of nothing", "root/b", "StartTimeout", child(func(c *ChildSpec) { c.StartTimeout = 1 })},
		{"4.1 ready without run", "root/b", "WaitReady", child(func(c *ChildSpec) { c.Run, c.Start, c.WaitReady = nil, process, true })},
		{"4.1 backoff kind", "root/b", "Backoff", child(func(c *ChildSpec) { c.Backoff.Kind = 9 })},
		{"4.1 backoff base", "root/b", "Backoff", child(func(c *ChildSpec) { c.Backoff.Base = -1 })},
		{"4.1 backoff cap", "root/b", "Backoff", child(func(c *ChildSpec) { c.Backoff = Backoff{Kind: Fixed, Base: 2, Cap: 1} })},
		{"4.1 limit", "root/b", "Limit", child(func(c *ChildSpec) { c.Limit.Max = -2 })},
		{"4.2 significant without auto shutdown", "root/b", "Significant", child(func(c *ChildSpec) { c.Significant, c.Restart = true, Transient })},
		{"4.2 significant and permanent", "root/a", "Significant", Spec{AutoShutdown: AnySignificant, Children: kids("a:significant")}},
		{"4.3 two of one ID", "root", "Children", one("a", "b", "a")},
		{"4.5 a pool without template", "root", "Children", Spec{Strategy: SimpleOneForOne}},
		{"4.5 a pool with two", "root", "Children", Spec{Strategy: SimpleOneForOne, Children: kids("a", "b")}},
		{"4.6 strategy", "root", "Strategy", Spec{Strategy: 4}},
		{"4.6 auto shutdown", "root", "AutoShutdown", Spec{AutoShutdown: 4}},
		{"4.6 start failure", "root", "StartFailure", Spec{StartFailure: 2}},
		{"4.6 intensity", "root", "Limit", limited(Spec{}, Limit{Max: -2})},
		{"4.6 period", "root", "Limit", limited(Spec{}, Escalating(1, -time.Second))},
		{"4.6 count", "root", "Limit", limited(Spec{}, Limit{Max: 1, Count: 9})},
		{"4.6 a quarantine that cannot end", "root", "Limit", limited(Spec{}, Quarantining(1, 0))},
		{"4.6 a quarantine of all", "root", "Limit", limited(Spec{}, Quarantining(0, 1))},
		{"4.6 name", "a/b", "Name", Spec{Name: "a/b"}},
		{"deep", "app/s/t/x", "Run", Spec{Name: "app", Children: []ChildSpec{{ID: "s", Supervisor: &Spec{Children: []ChildSpec{{ID: "t", Supervisor: &Spec{Children: []ChildSpec{{ID: "x"}}}}}}}}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var bad *SpecError
			err := row.spec.Validate()
			if !errors.As(err, &bad) || bad.Path != row.path || bad.Field != row.field || bad.Problem == "" {
				t.Errorf("%v", err)
			}
			row.spec.OnEvent = func(e Event) { t.Errorf("4.4 something was started: %v", e) }
			if s, err := Start(context.Background(), row.spec); s != nil || !errors.As(err, &bad) {
				t.Errorf("4.4 start: %v", err)
			}
		})
	}
}

// Row 4.2: every combination is either refused or starts and stops.
func TestOTPValidationProduct(t *testing.T) {
	for _, auto := range []AutoShutdown{NeverShutdown, AnySignificant, AllSignificant} {
		for _, restart := range []Restart{Permanent, Transient, Temporary} {
			for _, shutdown := range []time.Duration{BrutalKill, Infinity, 0, 1, time.Second} {
				for _, typ := range []ChildType{Worker, SupervisorType} {
					for _, significant := range []bool{false, true} {
						c := ChildSpec{ID: "a", Run: idle, Restart: restart, Shutdown: shutdown, Type: typ, Significant: significant}
						err := Spec{AutoShutdown: auto, Children: []ChildSpec{c}}.Validate()
						legal := !significant || auto != NeverShutdown && restart != Permanent
						if legal != (err == nil) {
							t.Errorf("%v %v %v %v significant %v: %v", auto, restart, shutdown, typ, significant, err)
						}
					}
				}
			}
		}
	}
}

// FuzzSpec: validation never panics, and what is valid starts, takes a crash
// and stops.
func FuzzSpec(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 2, 3})
	f.Add([]byte("\x02\x00\x00\x05\x3c\x00\x00\x00a\x01\x02\x00\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b)
		}
		span := func() time.Duration { // any time, small ones more often
			d := time.Duration(next() - 3)
			for range next() % 8 {
				d = d*255 + time.Duration(next())
			}
			return d
		}
		limit := func() Limit {
			if next()%2 == 0 {
				return Limit{}
			}
			return Limit{Max: int(span()), Within: span(), Count: Count(next() % 6), Scope: Scope(next() % 3), OnLimit: LimitAction(next() % 6)}
		}
		crash := make(chan struct{})
		run := func(ctx context.Context) error {
			Ready(ctx)
			select {
			case <-crash:
				return errBoom
			case <-ctx.Done():
				return nil
			}
		}
		var spec func(depth int) Spec
		spec = func(depth int) Spec {
			s := Spec{
				Strategy: Strategy(next() % 6), AutoShutdown: AutoShutdown(next() % 6), StartFailure: StartFailure(next() % 3), Limit: limit(),
				Name: string(rune(next())),
			}
			for range next() % 5 {
				c := ChildSpec{
					ID: string(rune(next() % 64)), Restart: Restart(next() % 4), Shutdown: span(), Type: ChildType(next() % 3), OnAbandon: Abandon(next() % 3),
					Backoff: Backoff{Kind: BackoffKind(next() % 6), Base: span(), Cap: span(), StableAfter: span(), Jitter: next()%2 == 0},
					Limit:   limit(), StartTimeout: span(), WaitReady: next()%2 == 0, Significant: next()%4 == 0,
				}
				kind := next()
				if kind%8 != 0 {
					c.Run = run
				}
				if kind%4 == 0 {
					c.Start = func(context.Context) (Process, error) { return newFake(), nil }
				}
				if kind%16 == 2 && depth < 12 {
					inner := spec(depth + 1)
					c.Supervisor, c.Run = &inner, nil
				}
				s.Children = append(s.Children, c)
			}
			return s
		}
		s := spec(1)
		if s.Validate() != nil {
			if sup, err := Start(context.Background(), s); sup != nil || err == nil {
				t.Fatal("an invalid spec has started")
			}
			return
		}
		synctest.Test(t, func(t *testing.T) {
			crash = make(chan struct{})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() { // time may not pass: a child that ends at once may be restarted without limit or delay
				for range 10_000 {
					runtime.Gosched()
				}
				cancel() // or the start may wait for a Reset
			}()
			sup, err := Start(ctx, s)
			if err != nil {
				time.Sleep(time.Hour)
				return
			}
			for range 100 {
				select {
				case crash <- struct{}{}:
				default:
				}
				runtime.Gosched()
			}
			sup.Stop()
			<-sup.Done()
			time.Sleep(time.Hour)
		})
	})
}
