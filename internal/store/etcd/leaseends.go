package etcd

import (
	"context"
	"strings"

	"github.com/coppice-dev/coppice/internal/store"
)

var _ store.LeaseFollower = (*Store)(nil)

// FollowLeases implements store.LeaseFollower.
func (s *Store) FollowLeases(ctx context.Context, changed func(string)) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		rev, err := s.current(ctx)
		if err == nil {
			changed("") // what was missed
			if s.followLeases(ctx, rev, changed) {
				pause = minPause
			}
		}
		if err := s.pause(ctx, pause); err != nil {
			return err
		}
	}
}

// followLeases is FollowLeases after a revision, until the watch of etcd ends. It reports whether that has worked.
func (s *Store) followLeases(ctx context.Context, rev int64, changed func(string)) (worked bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from := s.leaseKey("")
	w, err := s.client.Watch(ctx, from, from[:len(from)-1]+"0", rev+1)
	if err != nil {
		return false
	}
	for {
		changes, err := w.Receive()
		if err != nil {
			return worked
		}
		worked = true
		for _, e := range changes.Events {
			changed(strings.TrimPrefix(e.Key, from))
		}
	}
}
