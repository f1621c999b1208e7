package main

import (
	"context"
	"sync"
)

// raw is the floor and no library: one goroutine for each child, and one loop
// that receives exits on a channel and starts the child again. No names, no
// context for each child, no limits, no order, no events.
type raw struct {
	p      *probe
	ctx    context.Context
	cancel context.CancelFunc
	exits  chan func()
	bang   chan struct{}
	done   sync.WaitGroup
}

func (r *raw) start(n int, hot bool) error {
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.exits, r.bang = make(chan func()), make(chan struct{})
	quit := r.ctx.Done()
	go func() {
		for {
			select {
			case again := <-r.exits:
				go again()
			case <-quit:
				return
			}
		}
	}()
	for range n {
		r.done.Add(1)
		go func() {
			r.p.started.Add(1)
			<-quit
			r.p.stopped.Add(1)
			r.done.Done()
		}()
	}
	if !hot {
		return nil
	}
	var run func()
	run = func() {
		if !r.p.hotStarted() {
			select {
			case <-r.bang:
			case <-quit:
				return
			}
		}
		r.p.hotCrashes()
		select {
		case r.exits <- run:
		case <-quit:
		}
	}
	go run()
	return nil
}

func (r *raw) crash()      { r.bang <- struct{}{} }
func (r *raw) stop() error { r.cancel(); r.done.Wait(); return nil }

// rawRest is the floor of rest_for_one: the children after the one that
// failed are ended in reverse order, one at a time, and all are started again.
type rawRest struct {
	p     *probe
	bang  chan struct{}
	quits []chan struct{}
	ended chan int
	all   chan struct{}
}

func (r *rawRest) start(n int, _ bool) error {
	r.bang, r.quits, r.ended, r.all = make(chan struct{}), make([]chan struct{}, n), make(chan int), make(chan struct{})
	for i := range n {
		r.run(i)
	}
	go r.loop()
	return nil
}

func (r *rawRest) run(i int) {
	quit := make(chan struct{})
	r.quits[i] = quit
	bang := r.bang
	if i > 0 {
		bang = nil
	}
	go func() {
		r.p.started.Add(1)
		select {
		case <-quit:
		case <-bang:
		}
		r.p.stopped.Add(1)
		r.ended <- i
	}()
}

// end ends the children after i, last one first.
func (r *rawRest) end(i int) {
	for k := len(r.quits) - 1; k > i; k-- {
		close(r.quits[k])
		<-r.ended
	}
}

func (r *rawRest) loop() {
	for {
		select {
		case i := <-r.ended:
			r.end(i)
			for k := i; k < len(r.quits); k++ {
				r.run(k)
			}
		case <-r.all:
			r.end(-1)
			r.all <- struct{}{}
			return
		}
	}
}

func (r *rawRest) crash()      { r.bang <- struct{}{} }
func (r *rawRest) stop() error { r.all <- struct{}{}; <-r.all; return nil }
