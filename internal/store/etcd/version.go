package etcd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// oldest is the oldest version of etcd that can be used. Earlier members go on renewing and ending leases for some
// time after they no longer lead, so that two holders may have one.
const oldest = "3.5.13"

// checkVersion fails if a member is too old. It asks as many as are needed for anything to work.
func (c *conn) checkVersion(ctx context.Context, endpoints []string) error {
	answers := make(chan error, len(endpoints)) // nil if a member is new enough
	bounded, cancel := context.WithTimeout(ctx, attemptTime)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel() // ends what still asks
	for _, endpoint := range endpoints {
		asking.Go(func() {
			version, err := c.client.Version(bounded, endpoint)
			if err != nil {
				return
			}
			if !isSince(version, oldest) {
				err = fmt.Errorf("%s is etcd %.40q; the store needs at least %s, since earlier ones may give a lease "+
					"to two holders", endpoint, version, oldest)
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

// isSince reports whether a version such as 3.6.0-rc.1 is at least another one, which is no preliminary one.
func isSince(version, other string) bool {
	version, _, _ = strings.Cut(version, "+")
	version, _, preliminary := strings.Cut(version, "-")
	have, want := numbers(version), numbers(other)
	if have == nil {
		return false
	}
	order := slices.Compare(have, want)
	return order > 0 || order == 0 && !preliminary
}

// numbers returns the three numbers of a version, or nil if it has others.
func numbers(version string) (all []uint64) {
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil
		}
		all = append(all, n)
	}
	if len(all) != 3 {
		return nil
	}
	return all
}
