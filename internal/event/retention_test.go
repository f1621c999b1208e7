package event

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// removing calls before for each step in which events are removed.
type removing struct {
	store.Store
	before func()
}

func (r *removing) Apply(ctx context.Context, f store.Fence, conds []store.Cond, ops []store.Op) (store.Rev, error) {
	if ops[len(ops)-1].Kind == store.Delete {
		r.before()
	}
	return r.Store.Apply(ctx, f, conds, ops)
}

// However much there is to be removed, what is appended meanwhile is written between two
// steps, so that no reader waits for the end.
func TestPruneGivesWay(t *testing.T) {
	s := &removing{Store: memory.New(), before: func() {}}
	first := openLog(t, Config{Store: s})
	for i := range 100 * blockSize {
		first.Append(Event{Type: "task.created", Message: fmt.Sprint(i), Time: time.Now().Add(-time.Hour)})
	}
	flush(t, first)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var l *Log
	steps, late := 0, 0
	opened, done := make(chan struct{}), make(chan struct{})
	s.before = func() {
		<-opened
		if steps == 50 {
			return
		}
		steps++
		if steps > 1 {
			records, _, err := s.Snapshot(context.Background(), "events")
			if err != nil || len(records) == 0 || !strings.Contains(string(records[len(records)-1].Value), fmt.Sprint("step ", steps-1)) {
				late++
			}
		}
		l.Append(Event{Type: "task.edited", Message: fmt.Sprint("step ", steps)})
		if steps == 50 {
			close(done)
		}
	}
	l = openLog(t, Config{Store: s, MaxAge: time.Minute})
	close(opened)
	<-done
	if late > 0 {
		t.Errorf("%d of %d events had to wait for more than one step", late, steps)
	}
}
