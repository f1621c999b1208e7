package etcd

import (
	"context"
	"fmt"
	"sync"

	"github.com/coreos/go-semver/semver"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// oldest is the oldest version of etcd that can be used. Earlier members go on renewing and ending leases for some
// time after they no longer lead, so that two holders may have one.
var oldest = semver.Version{Major: 3, Minor: 5, Patch: 13}

// checkVersion fails if a member is too old. It asks as many as are needed for anything to work.
func (s *Store) checkVersion(ctx context.Context) error {
	endpoints := s.client.Endpoints()
	answers := make(chan error, len(endpoints)) // nil if a member is new enough
	bounded, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), attemptTime)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel() // ends what still asks
	for _, endpoint := range endpoints {
		asking.Go(func() {
			status, err := s.client.Status(bounded, endpoint)
			if err != nil {
				return
			}
			v, err := semver.NewVersion(status.Version)
			if err == nil && v.LessThan(oldest) {
				err = fmt.Errorf("%s is etcd %s; the store needs at least %s, since earlier ones may give a lease "+
					"to two holders", endpoint, v, oldest)
			}
			answers <- err
		})
	}
	for range len(endpoints)/2 + 1 {
		select {
		case err := <-answers:
			if err != nil {
				return err
			}
		case <-bounded.Done():
			return ctx.Err() // what comes next says that etcd does not answer
		}
	}
	return nil
}
