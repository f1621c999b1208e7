package trigger

import (
	"errors"
	"fmt"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/supervisor"
)

// reportedRun is a run whose exit carries the status that it sent last.
type reportedRun struct {
	supervisor.Process
	m           *Manager
	path        string
	incarnation uint64
}

func (r reportedRun) Wait() supervisor.Exit {
	exit := r.Process.Wait()
	if d, ok := r.Process.(interface{ Detached() bool }); r.m.Files != nil && (!ok || !d.Detached()) {
		r.countRun(exit)
	}
	if waits(exit.Err) || exit.Clean() {
		return exit
	}
	code, ok := errors.AsType[*proc.ExitError](exit.Err)
	killed := ok && code.Signal != 0 // so the status is not about the end
	if ok && !killed && code.Code == aidefile.Spent.Code() {
		exit.Err = fmt.Errorf("%w: %w", exit.Err, supervisor.ErrDoNotRestart)
	}
	if status := r.m.LastStatus(exit.Err); status != "" && !killed {
		exit.Err = &statusError{status, exit.Err}
	}
	return exit
}

// statusError is the error of a run that has reported itself how it ended.
type statusError struct {
	status string
	exit   error
}

func (e *statusError) Error() string { return fmt.Sprintf("%.*s", sdnotify.MaxStatus, e.status) }
func (e *statusError) Unwrap() error { return e.exit }
