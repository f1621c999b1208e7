package fleet

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// Agent is an agent of the fleet: DIR KIND NAME. It keeps a journal of its
// lives, and a lock that shows when two of them overlap.
func Agent(args []string) {
	dir, kind, name := args[0], args[1], args[2]
	lock := flock.New(filepath.Join(dir, name+".lock"))
	line := "start"
	if ok, err := lock.TryLock(); err != nil || !ok {
		line = "twice"
	}
	journal, err := os.OpenFile(filepath.Join(dir, name+".journal"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	incarnation := os.Getenv("COPPICE_INCARNATION")
	fmt.Println("start", incarnation) // what is in the journal is in the log, too
	fmt.Fprintf(journal, "%s %s %d\n", line, incarnation, os.Getpid())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	var crash <-chan time.Time
	if kind == "crash" {
		crash = time.After(time.Duration(20+rand.IntN(200)) * time.Millisecond)
	}
	select {
	case <-stop:
		fmt.Println("stop", incarnation)
		fmt.Fprintf(journal, "stop %s %d\n", incarnation, os.Getpid())
	case <-crash:
		os.Exit(1)
	}
}
