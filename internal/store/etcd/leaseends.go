package etcd

import (
	"context"
	"strings"

	"github.com/coppice-dev/coppice/internal/store"
)

var _ store.LeaseFollower = (*Store)(nil)

// FollowLeases implements store.LeaseFollower.
func (s *Store) FollowLeases(ctx context.Context, changed func(string)) error {
	return s.leases.follow(ctx, changed, s.refusals(s.conn.leaseKey("")))
}

// follow implements FollowLeases.
func (ls *leases) follow(ctx context.Context, changed func(string), log *refusals) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		rev, err := ls.conn.current(ctx)
		if err == nil {
			changed("") // what was missed
			if ls.followOnce(ctx, rev, changed, log) {
				pause = minPause
			}
		}
		if err := ls.conn.pause(ctx, pause); err != nil {
			return err
		}
	}
}

// followOnce is follow after a revision, until the watch of etcd ends. It reports whether that has worked.
func (ls *leases) followOnce(ctx context.Context, rev int64, changed func(string), log *refusals) (worked bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := ls.conn.leaseKey("")
	w, err := ls.conn.client.Watch(ctx, from, from[:len(from)-1]+"0", rev+1)
	if err != nil {
		log.note(err)
		return false
	}
	for {
		changes, err := w.Receive()
		if err != nil {
			log.note(err)
			return worked
		}
		worked, log.told = true, false
		for _, e := range changes.Events {
			changed(strings.TrimPrefix(e.Key, from))
		}
	}
}
