package server

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/deadline"
)

// watchDeadline makes the agents end at the deadline in a file. If that is the file already, it is read again.
func (p *shim) watchDeadline(file string) error {
	if err := deadline.CheckPath(file); err != nil {
		return err
	}
	p.mu.Lock()
	last := p.deadline
	if last.Path() != file {
		p.deadline = deadline.Watch(file, p.expire)
	}
	p.mu.Unlock()
	if last.Path() == file {
		last.Check() // its result is for starts
	} else {
		last.Close()
	}
	return nil
}

// watcher returns the deadline; nil if there is none.
func (p *shim) watcher() *deadline.Watcher {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deadline
}

// expire ends all agents, in parallel, when the lease of the node has ended. Nothing else is started: a start is the
// incarnation of its slot before it looks at the deadline.
func (p *shim) expire(at deadline.Instant, why error) {
	var runs []*incarnation
	for _, s := range p.all() {
		if run := s.running(); run != nil {
			runs = append(runs, run)
			go run.expire(why)
		}
	}
	slices.SortFunc(runs, func(a, b *incarnation) int {
		return cmp.Compare(deadline.LastGrace(a.grace), deadline.LastGrace(b.grace))
	})
	for _, run := range runs {
		deadline.Wait(run.ended, at.Add(deadline.LastGrace(run.grace)))
		go p.cutOff(run, why)
	}
}

// expire stops the incarnation, unless that was asked for already.
func (run *incarnation) expire(why error) {
	<-run.started
	if run.process == nil {
		return
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	if !run.stopped {
		run.stopped, run.expired = true, why
		run.process.Stop()
	}
}

// cutOff kills an incarnation, unless it has ended. A function that does not end takes its process with it, and so
// all agents of its program.
func (p *shim) cutOff(run *incarnation, why error) {
	run.kill()
	if _, ok := run.process.(*Function); !ok {
		return
	}
	select {
	case <-run.ended:
	case <-time.After(functionTime):
		p.fail(fmt.Errorf("an agent does not end: %w", why), expiredTime)
	}
}
