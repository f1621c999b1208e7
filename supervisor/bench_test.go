package supervisor

import (
	"context"
	"errors"
	"testing"
)

// BenchmarkRestart measures one exit and restart of a child, without and with a hook.
func BenchmarkRestart(b *testing.B) {
	for name, hook := range map[string]func(Event){"no hook": nil, "hook": func(Event) {}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n, done := 0, make(chan struct{})
			fail := errors.New("failed")
			s, err := Start(context.Background(), Spec{
				Limit: Limit{Max: Unlimited}, OnEvent: hook,
				Children: []ChildSpec{{ID: "a", Run: func(ctx context.Context) error {
					if n++; n < b.N {
						return fail
					}
					close(done)
					<-ctx.Done()
					return nil
				}}},
			})
			if err != nil {
				b.Fatal(err)
			}
			<-done
			b.StopTimer()
			s.Stop()
			<-s.Done()
		})
	}
}
