package sage

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// pauseTimeout bounds how long Ctrl-Z waits for the pause handlers of agents.
const pauseTimeout = time.Second

// pauser is a program that can prepare for a stop of its process.
type pauser interface {
	Pause(context.Context)
	Resume()
}

// pauseOnStop pauses the agents of a program before SIGTSTP (Ctrl-Z) stops the process, and resumes
// them when it continues.
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
				select { // the stop takes effect a moment later
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
