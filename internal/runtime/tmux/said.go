package tmux

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// Only this program listens to what an agent in tmux says of itself: what
// is said while no daemon runs is lost. The next one listens at the same place.

// speak listens at a place that an agent was told of, or will be. news is sent
// to when what it says has to be remembered.
func listenNotify(socket string, news chan<- struct{}) (*proc.NotifySocket, error) {
	return proc.ListenNotify(socket, func(_ sdnotify.Notice, u sdnotify.Urgency) {
		if u >= sdnotify.Words {
			select {
			case news <- struct{}{}:
			default:
			}
		}
	})
}

// resumeNotify listens to an incarnation that lived before this program did.
func (ses *session) resumeNotify() {
	if ses.rec.Socket == "" {
		return
	}
	notify, err := listenNotify(ses.rec.Socket, ses.news)
	if err != nil {
		ses.slot.r.log.Warn("cannot listen to an agent", "path", ses.slot.path, "error", err)
		return
	}
	notify.Recall(ses.rec.Said.Notice(time.Now()))
	ses.notify = notify
}

// saveInterval is the shortest time between two notes of what an agent says.
const saveInterval = time.Second

// hearOut remembers what the incarnation says for the next listener.
func (ses *session) saveNotices() {
	ctx := ses.slot.r.Ctx
	for awaits(ses, ses.news) {
		ses.saveNotice(ctx)
		if !awaits(ses, time.After(saveInterval)) {
			break
		}
	}
	if ses.hasEnded() {
		ses.notify.Close()
		return
	}
	ses.notify.Leave()
	select {
	case <-ses.news: // the last that this program has heard
		ses.saveNotice(context.WithoutCancel(ctx))
	default:
	}
}

func (ses *session) saveNotice(ctx context.Context) {
	said := wire.NewNotice(ses.notify.Said(), time.Now())
	ses.update(ctx, func(rec *record) { rec.Said = said })
}

// awaits reports whether something has come before the end of the incarnation
// or of the runtime.
func awaits[T any](ses *session, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-ses.done:
	case <-ses.slot.r.Ctx.Done():
	}
	return false
}
