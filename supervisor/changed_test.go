package supervisor

import (
	"fmt"
	"testing"
	"time"
)

// TestChanged: what a call changes is told, also where nothing starts or ends.
func TestChanged(t *testing.T) {
	delayed := one("a")
	delayed.Children[0].Backoff = Backoff{Kind: Fixed, Base: time.Minute}
	for name, row := range map[string]struct {
		spec Spec
		do   func(r *rig)
		want string
	}{
		"a delay is suspended":        {delayed, func(r *rig) { r.crash("a"); r.suspend("a") }, "[suspended stopped on request]"},
		"a delay is terminated":       {delayed, func(r *rig) { r.crash("a"); r.terminate("a") }, "[stopped stopped on request]"},
		"what was given up":           {limited(one("a"), GivingUp(0)), func(r *rig) { r.crash("a"); r.suspend("a") }, "[suspended stopped on request]"},
		"once is enough":              {delayed, func(r *rig) { r.crash("a"); r.suspend("a"); r.suspend("a") }, "[suspended stopped on request]"},
		"a running child is reset":    {one("a"), func(r *rig) { r.reset("a") }, "[running reset]"},
		"a delay is reset: it starts": {delayed, func(r *rig) { r.crash("a"); r.reset("a") }, "[]"},
		"a running child has an end":  {one("a"), func(r *rig) { r.suspend("a") }, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, row.spec)
			row.do(r)
			got := []string{}
			for _, e := range r.seen {
				if e, ok := e.(ChildChanged); ok {
					got = append(got, fmt.Sprintf("%v %v", e.State, e.Reason))
				}
			}
			if fmt.Sprint(got) != row.want {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}
