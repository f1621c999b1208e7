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
	stops := make(chan os.Signal, 1)
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
			stopProcess(stops, quit)
			on.Resume()
		}
	}()
	return func() {
		signal.Stop(stops)
		close(quit)
		<-over
	}
}

// stopProcess stops this process, and returns when it continues.
func stopProcess(stops <-chan os.Signal, quit <-chan struct{}) {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	defer signal.Stop(goesOn)
	for syscall.Kill(os.Getpid(), syscall.SIGSTOP) == nil {
		select { // the stop takes effect a moment later
		case <-goesOn:
			return
		case <-quit:
			return
		case <-stops: // it came at once after SIGCONT, which the kernel may have dropped then: stop again
			select {
			case <-goesOn:
			default:
			}
		}
	}
}
