package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/coppice-dev/coppice/internal/project"
)

// agent is an agent of the fleet: DIR KIND NAME. It keeps a journal of its
// lives, and a lock that shows when two of them overlap.
func agent(args []string) {
	dir, kind, name := args[0], args[1], args[2]
	if kind == "belief" {
		fmt.Fprintln(os.Stderr, believe(dir, name))
		os.Exit(1)
	}
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

// daemonPID is the process that holds the lock of the project.
func daemonPID(dir string) (int, error) {
	p, err := project.Open(filepath.Join(dir, "coppice.toml"))
	if err != nil {
		return 0, err
	}
	holder, locked := p.Locked()
	if !locked || holder.PID == 0 {
		return 0, fmt.Errorf("no daemon holds the lock of %s", dir)
	}
	return holder.PID, nil
}

// waitGone waits until a process that is not our child has ended.
func waitGone(pid int) error {
	for range 6000 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || zombie(text) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("process %d does not end", pid)
}

// zombie: somebody else has yet to collect it, but it runs no more.
func zombie(stat []byte) bool {
	for i := len(stat) - 1; i >= 0; i-- {
		if stat[i] == ')' {
			return i+2 < len(stat) && stat[i+2] == 'Z'
		}
	}
	return false
}
