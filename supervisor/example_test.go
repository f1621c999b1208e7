package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// serve is a child that runs until it is asked to stop.
func serve(ctx context.Context) error {
	supervisor.Ready(ctx)
	<-ctx.Done()
	return nil
}

// A supervisor starts its children in order and stops them in reverse order.
func ExampleStart() {
	child := func(ctx context.Context) error {
		self, _ := supervisor.SelfOf(ctx)
		fmt.Println("started", self.Path)
		defer fmt.Println("stopped", self.Path)
		return serve(ctx)
	}
	sup, err := supervisor.Start(context.Background(), supervisor.Spec{
		Name: "app",
		Children: []supervisor.ChildSpec{
			{ID: "db", Run: child, WaitReady: true},
			{ID: "api", Run: child, WaitReady: true},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	sup.Stop()
	fmt.Println("error:", sup.Wait())
	// Output:
	// started app/db
	// started app/api
	// stopped app/api
	// stopped app/db
	// error: <nil>
}

// A child that fails is restarted. A transient one that has done its work is not.
func ExampleChildSpec_restart() {
	var attempts int
	sup, err := supervisor.Start(context.Background(), supervisor.Spec{
		Name:         "app",
		AutoShutdown: supervisor.WhenDone,
		Children: []supervisor.ChildSpec{{
			ID:      "import",
			Restart: supervisor.Transient,
			Backoff: supervisor.Backoff{Kind: supervisor.Fixed, Base: time.Millisecond},
			Run: func(context.Context) error {
				if attempts++; attempts < 3 {
					return errors.New("connection refused")
				}
				fmt.Println("imported at attempt", attempts)
				return nil
			},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("error:", sup.Wait())
	// Output:
	// imported at attempt 3
	// error: <nil>
}

// A child that keeps failing reaches its limit. One that is quarantined does not
// disturb its siblings, and Reset starts it again.
func ExampleLimit_quarantine() {
	held := make(chan supervisor.LimitReached, 1)
	sup, err := supervisor.Start(context.Background(), supervisor.Spec{
		Name: "app",
		OnEvent: func(e supervisor.Event) {
			if e, ok := e.(supervisor.LimitReached); ok {
				held <- e
			}
		},
		Children: []supervisor.ChildSpec{
			{ID: "steady", Run: serve, WaitReady: true},
			{
				ID:    "broken",
				Run:   func(context.Context) error { return errors.New("no such file") },
				Limit: supervisor.Quarantining(3, time.Minute),
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	e := <-held
	fmt.Println(e.Path(), "failed:", e.Exit.Err)
	for _, id := range []string{"steady", "broken"} {
		info, _ := sup.Child(id)
		fmt.Println(id, "is", info.State)
	}
	sup.Stop()
	sup.Wait()
	// Output:
	// app/broken failed: no such file
	// steady is running
	// broken is quarantined
}

// With RestForOne, what was started after a child that fails is restarted with it.
func ExampleStrategy_restForOne() {
	started, fail := make(chan string, 4), make(chan error)
	child := func(ctx context.Context) error {
		self, _ := supervisor.SelfOf(ctx)
		started <- fmt.Sprintf("%s, incarnation %d", self.Path, self.Incarnation)
		return serve(ctx)
	}
	sup, err := supervisor.Start(context.Background(), supervisor.Spec{
		Name:     "app",
		Strategy: supervisor.RestForOne,
		Children: []supervisor.ChildSpec{
			{ID: "db", WaitReady: true, Run: func(ctx context.Context) error {
				if self, _ := supervisor.SelfOf(ctx); self.Incarnation > 1 {
					return child(ctx)
				}
				supervisor.Ready(ctx)
				return <-fail
			}},
			{ID: "api", WaitReady: true, Run: child},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-started)
	fail <- errors.New("out of memory")
	fmt.Println(<-started)
	fmt.Println(<-started)
	sup.Stop()
	sup.Wait()
	// Output:
	// app/api, incarnation 1
	// app/db, incarnation 2
	// app/api, incarnation 2
}
