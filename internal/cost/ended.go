package cost

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

const (
	countTime  = 5 * time.Second // for the first try, which delays what follows an exit
	countAgain = 5 * time.Second // between the tries after it
)

// Ended counts the run that an incarnation of an agent was, with its call if it runs a command line. life
// distinguishes the incarnation from all others of the agent; it is empty if that is not known. began may be zero. If
// the store cannot be written, it is tried again until the daemon ends.
func (l *Ledger) Ended(
	path string, incarnation uint64, life string, began, ended time.Time, calls ...agentcli.Record,
) {
	run := Run{Agent: path, ID: "life " + life, Incarnation: incarnation, Calls: calls, Began: began, Ended: ended}
	if life == "" {
		run.ID = fmt.Sprintf("incarnation %d", incarnation)
	}
	if ended.IsZero() {
		run.Ended = time.Now()
	}
	run.Task, run.Attempt = l.Task(path, incarnation) // later it is not known any longer
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	err := l.Count(ctx, run)
	if err == nil {
		return
	}
	l.Logger.Warn("cannot count what a command line has used; trying again", "path", path, "error", err)
	l.Go(func(ctx context.Context) {
		for l.Count(ctx, run) != nil {
			select {
			case <-time.After(countAgain):
			case <-ctx.Done():
				l.Logger.Error("what a command line has used is not counted", "path", path, "error", err)
				return
			}
		}
	})
}
