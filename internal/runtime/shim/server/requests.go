package server

import (
	"fmt"
	"sync"

	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// requests has the requests of a client for one slot. Those for other slots do not wait: a start, and a
// write to an agent that does not read, take some time. Nor does a kill, which ends that.
type requests struct{ kills, others queue }

func newRequests(handle func(*wire.Message)) *requests {
	return &requests{kills: queue{handle: handle}, others: queue{handle: handle}}
}

func (r *requests) add(m *wire.Message) error {
	if m.Type == wire.Kill {
		return r.kills.add(m)
	}
	return r.others.add(m)
}

// wait waits for all requests.
func (r *requests) wait() {
	r.kills.done.Wait()
	r.others.done.Wait()
}

// idle reports whether there is no request.
func (r *requests) idle() bool { return r.kills.idle() && r.others.idle() }

// queue handles requests one after the other.
type queue struct {
	handle func(*wire.Message)

	done sync.WaitGroup // with run

	mu      sync.Mutex
	waiting []*wire.Message
	running bool
}

// maxRequests bounds the requests in a queue.
const maxRequests = 256

func (q *queue) add(m *wire.Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxRequests {
		return fmt.Errorf("more than %d requests without an answer", maxRequests)
	}
	q.waiting = append(q.waiting, m)
	if !q.running {
		q.running = true
		q.done.Go(q.run)
	}
	return nil
}

func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.running
}

func (q *queue) run() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.waiting, q.running = nil, false
			q.mu.Unlock()
			return
		}
		m := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		q.handle(m)
	}
}
