package tmux

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/ready"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// Only this program receives what an agent in tmux reports about itself: reports are lost while
// no daemon runs. The next daemon listens on the same socket.

// listenNotify listens on a notify socket. It sends to news when a report must be saved.
func listenNotify(socket string, news chan<- struct{}) (*ready.NotifySocket, error) {
	return ready.ListenNotify(socket, func(_ sdnotify.Notice, u sdnotify.Urgency) {
		if u >= sdnotify.Words {
			select {
			case news <- struct{}{}:
			default:
			}
		}
	})
}

// resumeNotify listens to an incarnation that was started by an earlier daemon.
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

// saveInterval is the minimum time between two saves of reports.
const saveInterval = time.Second

// saveNotices saves what the incarnation reports, for the next daemon.
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
	case <-ses.news: // the last report that this program has received
		ses.saveNotice(context.WithoutCancel(ctx))
	default:
	}
}

func (ses *session) saveNotice(ctx context.Context) {
	said := wire.NewNotice(ses.notify.Said(), time.Now())
	ses.update(ctx, func(rec *record) { rec.Said = said })
}

// awaits reports whether a value was received before the end of the incarnation or of the
// runtime.
func awaits[T any](ses *session, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-ses.done:
	case <-ses.slot.r.Ctx.Done():
	}
	return false
}
