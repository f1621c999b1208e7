package tmux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/tmux/pane"
	"github.com/coppice-dev/coppice/supervisor"
)

// exitOf returns how a dead incarnation without an exit record has ended. The keeper may have stopped it at the
// deadline of the node.
func exitOf(dir string, rec *record, v verdict, tail []string) supervisor.Exit {
	expired := pane.Expired(dir, rec.Incarnation)
	if expired == nil {
		return v.exit(rec.Asked, tail)
	}
	asked := rec.Asked
	asked.Stop = true
	asked.Note(rec.stopSignal())
	exit := v.exit(asked, tail)
	if exit.Kind == supervisor.Lost {
		return exit
	}
	err := expired
	if exit.Err != nil && !errors.Is(exit.Err, supervisor.ErrKilled) {
		err = fmt.Errorf("%w (%w)", err, exit.Err)
	}
	return supervisor.Exit{Kind: supervisor.Failure, Err: err}
}

// tellDeadline makes the keeper of a running incarnation end it at the deadline. It replaces a keeper of an earlier
// version, and one that does not answer. Needs the lock.
func (s *slot) tellDeadline(ctx context.Context, rec *record) error {
	if s.r.expiry == "" || s.askDeadline(ctx) == nil {
		return nil
	}
	_, err := s.r.tmux(ctx, nil, s.pipe(rec.Pane, "", rec.Incarnation, rec.Log, false)...)
	if err != nil {
		return fmt.Errorf("%w: starting a keeper that knows the deadline: %w", runtime.ErrUnknown, err)
	}
	return nil
}

// maxParallel bounds the keepers that are told at the same time.
const maxParallel = 16

// CheckDeadline is part of runtime.Expirer. It also adopts what runs, so that the ends are recorded.
func (r *Runtime) CheckDeadline(ctx context.Context) {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		r.log.Warn("keepers do not read the deadline", "error", err)
	}
	ahead := make(chan struct{}, maxParallel)
	var wg sync.WaitGroup
	for _, e := range entries {
		rec, err := readRecord(filepath.Join(r.Dir, e.Name()))
		if err != nil {
			continue // damaged, or not a slot with an agent
		}
		ahead <- struct{}{}
		wg.Go(func() {
			defer func() { <-ahead }()
			s, err := r.Get(rec.Path)
			if err != nil {
				return // the runtime is closed
			}
			_ = s.askDeadline(ctx) // at once, also if the server hangs; Adopt replaces a keeper that does not answer
			if _, err := s.Adopt(ctx); err != nil {
				r.log.Warn("keeper may not have read the deadline", "path", rec.Path, "error", err)
			}
		})
	}
	wg.Wait()
}

func (s *slot) askDeadline(ctx context.Context) error {
	c, leave, err := s.keeper(ctx)
	if err != nil {
		return err
	}
	defer leave()
	c.SetDeadline(time.Now().Add(keeperTimeout))
	if err := c.Send(&pane.Message{Type: pane.Deadline, File: []byte(s.r.expiry)}); err != nil {
		return err
	}
	m, err := c.Receive()
	if err == nil && m.Type != pane.Watches {
		err = fmt.Errorf("unexpected answer %.40q", m.Type)
	}
	return err
}
