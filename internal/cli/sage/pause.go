package sage

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// pauseTimeout is how long Ctrl-Z waits for agents that have something to do before.
const pauseTimeout = time.Second

// pauser is what can be told that its process is about to be stopped.
type pauser interface {
	Pause(context.Context)
	Resume()
}

// pauseOnStop lets the agents of a program know when their process is stopped by
// SIGTSTP (Ctrl-Z): they pause before that, and resume when it goes on.
func pauseOnStop(on pauser) (release func()) {
	stops, goesOn := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTSTP)
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-stops:
			case <-quit:
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), pauseTimeout)
			on.Pause(ctx)
			cancel()
			signal.Notify(goesOn, syscall.SIGCONT)
			if syscall.Kill(os.Getpid(), syscall.SIGSTOP) == nil {
				select { // it is stopped a moment after that
				case <-goesOn:
				case <-quit:
				}
			}
			signal.Stop(goesOn)
			on.Resume()
		}
	}()
	return func() {
		signal.Stop(stops)
		close(quit)
		<-over
	}
}
