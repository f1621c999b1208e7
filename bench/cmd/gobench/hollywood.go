package main

import (
	"math"
	"strconv"

	"github.com/anthdm/hollywood/actor"
)

// hollywoodFleet is github.com/anthdm/hollywood, an actor library without a
// supervisor: each actor restarts itself after a panic. A parent actor stands
// for the supervisor. Its inbox is 1024 messages by default, 28 kB a child.
type hollywoodFleet struct {
	p      *probe
	inbox  int
	engine *actor.Engine
	parent *actor.PID
	hotPID *actor.PID
	up     chan struct{}
	n      int
	hot    bool
}

type bang struct{}

func (f *hollywoodFleet) Receive(c *actor.Context) {
	if _, ok := c.Message().(actor.Started); !ok {
		return
	}
	opts := []actor.OptFunc{actor.WithMaxRestarts(math.MaxInt32), actor.WithRestartDelay(0),
		actor.WithInboxSize(f.inbox)}
	for i := range f.n {
		c.SpawnChildFunc(f.idle, "idle", append(opts, actor.WithID(strconv.Itoa(i)))...)
	}
	if f.hot {
		f.hotPID = c.SpawnChildFunc(f.hotChild, "hot", opts...)
	}
	close(f.up)
}

func (f *hollywoodFleet) idle(c *actor.Context) {
	switch c.Message().(type) {
	case actor.Started:
		f.p.started.Add(1)
	case actor.Stopped:
		f.p.stopped.Add(1)
	}
}

func (f *hollywoodFleet) hotChild(c *actor.Context) {
	switch c.Message().(type) {
	case actor.Started:
		if f.p.hotStarted() {
			c.Send(c.PID(), bang{})
		}
	case bang:
		f.p.hotCrashes()
		panic(errCrash)
	}
}

func (f *hollywoodFleet) start(n int, hot bool) error {
	f.n, f.hot, f.up = n, hot, make(chan struct{})
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		return err
	}
	f.engine = e
	f.parent = e.Spawn(func() actor.Receiver { return f }, "parent")
	<-f.up
	return nil
}

func (f *hollywoodFleet) crash()      { f.engine.Send(f.hotPID, bang{}) }
func (f *hollywoodFleet) stop() error { <-f.engine.Poison(f.parent).Done(); return nil }
