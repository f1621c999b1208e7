package daemon

import (
	"errors"

	"github.com/coppice-dev/coppice/internal/runtime/notice"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// parted is the error of an incarnation that ended by itself and has said
// something that belongs to its end. It is no reason to fail: the kind of the
// exit stays what it was.
type parted struct {
	exit      error // nil if it was clean
	announced bool  // STOPPING=1
	status    string
	errno     int
}

func (p *parted) Error() string {
	switch {
	case p.exit == nil:
		return "ended by itself, as announced"
	case p.announced:
		return p.exit.Error() + ", as announced"
	}
	return p.exit.Error()
}

func (p *parted) Unwrap() error { return p.exit }

// parting adds to an exit what was said before. An exit code other than that of
// success is a failure that nobody has announced.
func parting(exit supervisor.Exit, said notice.Notice) supervisor.Exit {
	var process *proc.ExitError
	signalled := errors.As(exit.Err, &process) && process.Signal != 0
	var unhealthy *unhealthyError
	p := &parted{
		exit: exit.Err, status: said.Status, errno: said.Errno,
		announced: !said.Stopping.IsZero() && (exit.Clean() || signalled) && !errors.As(exit.Err, &unhealthy),
	}
	if p.announced || exit.Err != nil && (p.status != "" || p.errno != 0) {
		exit.Err = p
	}
	return exit
}
