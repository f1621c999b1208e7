//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// keep is the floor: it starts n processes, starts each again that ends, and on SIGTERM stops all
// of them, the last first. It has no names, limits, delays or records.
func keep(n int, argv []string) error {
	file, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}}
	pids, place := make([]int, n), make(map[int]int, n)
	begin := func(i int) error {
		pid, err := syscall.ForkExec(file, argv, attr)
		if err != nil {
			return fmt.Errorf("starting process %d: %w", i, err)
		}
		pids[i], place[pid] = pid, i
		return nil
	}

	var mu sync.Mutex // for all below
	stopping := false
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	mu.Lock()
	go func() {
		<-terminated
		mu.Lock()
		defer mu.Unlock()
		stopping = true
		for _, pid := range slices.Backward(pids) {
			syscall.Kill(pid, syscall.SIGTERM)
		}
	}()
	for i := range n {
		if err := begin(i); err != nil {
			return err
		}
	}
	mu.Unlock()

	for left := n; left > 0; {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for any process: %w", err)
		}
		mu.Lock()
		i := place[pid]
		delete(place, pid)
		if stopping {
			left--
		} else {
			err = begin(i)
		}
		mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
