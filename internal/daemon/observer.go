package daemon

import (
	"sync"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// observer hands events on to somebody who may be slow, so that neither the
// supervisors nor the log wait for a person's terminal.
type observer struct {
	f     func(supervisor.Event)
	mu    sync.Mutex
	moved sync.Cond
	queue []supervisor.Event
	lost  int
	over  bool
	ended chan struct{}
}

// observe starts an observer; f may be nil.
func observe(f func(supervisor.Event)) *observer {
	o := &observer{f: f, ended: make(chan struct{})}
	o.moved.L = &o.mu
	go o.run()
	return o
}

// tell queues an event. The newest are dropped when too many wait.
func (o *observer) tell(e supervisor.Event) {
	if o.f == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) >= supervisor.MaxQueuedEvents {
		o.lost++
		return
	}
	o.report(e.Header().Supervisor)
	o.queue = append(o.queue, e)
	o.moved.Signal()
}

// report queues what says how many were dropped. Needs mu.
func (o *observer) report(where string) {
	if o.lost > 0 {
		o.queue = append(o.queue, supervisor.EventsLost{
			EventHeader: supervisor.EventHeader{Time: time.Now(), Supervisor: where, Type: supervisor.SupervisorType}, N: o.lost,
		})
		o.lost = 0
	}
}

// close waits until all that was told has been seen.
func (o *observer) close() {
	o.mu.Lock()
	o.over = true
	o.moved.Signal()
	o.mu.Unlock()
	<-o.ended
}

func (o *observer) run() {
	defer close(o.ended)
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.queue) == 0 && !o.over {
			o.moved.Wait()
		}
		batch := o.queue
		o.queue = nil
		if len(batch) == 0 {
			return
		}
		o.mu.Unlock()
		for _, e := range batch {
			o.f(e)
		}
		o.mu.Lock()
		o.report(batch[len(batch)-1].Header().Supervisor)
	}
}
