package remote

import (
	"errors"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/remote/message"
)

// lookUp finds incarnations that the client has, and watches them. The state of each is sent, with its end if that
// was missed.
func (c *conn) lookUp(refs []message.Ref, working *sync.WaitGroup) error {
	c.mu.Lock()
	c.refs += len(refs)
	tooMany := len(refs) > message.MaxRefs || c.refs+len(c.watched) > maxWatched
	c.mu.Unlock()
	if tooMany {
		return errors.New("the client names too many incarnations")
	}
	for _, r := range refs {
		working.Go(func() {
			defer func() {
				c.mu.Lock()
				c.refs--
				c.mu.Unlock()
			}()
			for told := ""; c.find(r, &told); {
				select {
				case <-time.After(time.Second):
				case <-c.ctx.Done():
					return
				}
			}
		})
	}
	return nil
}

// find looks up an incarnation once. It reports whether that must be tried again; told is the reason that the client
// knows.
func (c *conn) find(r message.Ref, told *string) (again bool) {
	select {
	case c.lookups <- struct{}{}:
		defer func() { <-c.lookups }()
	case <-c.ctx.Done():
		return false
	}
	h, st := c.s.stateOf(c.ctx, r)
	switch {
	case c.ctx.Err() != nil:
		return false
	case h != nil:
		_ = c.send(&outgoing{of: h}) // as below: the reader notices an error
		return false
	case st.End == nil && st.Detail == *told:
		return true
	}
	*told = st.Detail
	_ = c.send(&outgoing{Answer: message.Answer{State: st}})
	return st.End == nil
}
