package far

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli/session"
)

// Server follows calls on this node for controllers. It is an http.Handler, which the caller protects.
type Server struct {
	localize func(home, path string) string
	homes    session.Homes
	ctx      context.Context // done when the server is closed
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	clients map[string]*client
}

// client is a Client of another node.
type client struct {
	calls map[uint64]*following
	used  time.Time
}

const (
	// A call for which its client does not ask is forgotten after idleTime.
	idleTime   = 5 * time.Minute
	maxClients = 16
	maxCalls   = 1 << 14 // of a client
	// answerTime bounds the time for an answer, except for the files of one call.
	answerTime = time.Second
)

// NewServer returns a Server. localize returns the path on this machine of a file that a controller names, whose
// project is in the directory home.
func NewServer(localize func(home, path string) string) *Server {
	s := &Server{localize: localize, clients: map[string]*client{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Go(s.forgetIdle)
	return s
}

// Close ends what is in progress.
func (s *Server) Close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
}

// forgetIdle forgets calls that are not asked for, until the server is closed.
func (s *Server) forgetIdle() {
	tick := time.NewTicker(idleTime / 5)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s.forgetBefore(now.Add(-idleTime))
		case <-s.ctx.Done():
			return
		}
	}
}

// forgetBefore forgets what was used last before a time.
func (s *Server) forgetBefore(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.clients {
		for n, f := range c.calls {
			if f.used.Before(at) {
				delete(c.calls, n)
			}
		}
		if c.used.Before(at) {
			delete(s.clients, id)
		}
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != Path {
		http.Error(w, "expected POST "+Path, http.StatusNotFound)
		return
	}
	var req request
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&req)
	if err == nil {
		err = req.check()
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("not a request for calls: %v", err), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.answer(r.Context(), &req)) // a client that has gone asks again
}

// answer answers a request.
func (s *Server) answer(ctx context.Context, req *request) *answer {
	a := &answer{Version: version}
	s.drop(req.Client, req.Drop)
	late := time.Now().Add(answerTime)
	for size, i := 0, 0; i < len(req.Polls) && size < fullAnswer && time.Now().Before(late) && ctx.Err() == nil; i++ {
		if p := s.poll(ctx, req.Client, &req.Polls[i], late); p != nil {
			a.Polls = append(a.Polls, *p)
			size += len(p.Report)
		}
	}
	return a
}

// drop forgets calls of a client.
func (s *Server) drop(of string, ids []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[of]
	for _, id := range ids {
		if c != nil {
			delete(c.calls, id)
		}
	}
}

// find returns a call of a client; nil if it is not known.
func (s *Server) find(of string, id uint64) *following {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[of]
	if c == nil || c.calls[id] == nil {
		return nil
	}
	now := time.Now()
	c.used, c.calls[id].used = now, now
	return c.calls[id]
}

// add adds a call of a client. It is nil if there are too many.
func (s *Server) add(of string, id uint64, f *following) *following {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, now := s.clients[of], time.Now()
	if c == nil {
		if len(s.clients) >= maxClients {
			s.forgetOldest()
		}
		c = &client{calls: map[uint64]*following{}}
		s.clients[of] = c
	}
	if len(c.calls) >= maxCalls {
		return nil
	}
	for _, other := range c.calls {
		if f.place != "" && other.place == f.place {
			other.shared.Store(true)
			f.shared.Store(true)
		}
	}
	c.used, f.used = now, now
	c.calls[id] = f
	return f
}

// forgetOldest forgets the client that has asked for nothing for the longest time. Needs mu.
func (s *Server) forgetOldest() {
	oldest := ""
	for id, c := range s.clients {
		if oldest == "" || c.used.Before(s.clients[oldest].used) {
			oldest = id
		}
	}
	delete(s.clients, oldest)
}
