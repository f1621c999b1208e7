package usage

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/token"
)

// Show returns what agents use.
var Show = api.Route[ShowRequest, []Used]{
	Method: http.MethodGet, Path: "/usage", For: api.People,
	ID: "usage", Summary: "What agents use of the machine, and what they may use",
	Doc: "Measured at most every 2 s, less often in a large fleet, with all descendants of an agent. Agents that do " +
		"not run are missing.",
	Returns: "The agents, in the order of the tree; none where usage cannot be measured.",
}

// ShowRequest selects agents.
type ShowRequest struct {
	Path string `json:"path,omitempty" doc:"An agent or a supervisor; all if it is missing."`
}

// Used is what an agent uses and may use.
type Used struct {
	_          struct{} `schema:"Usage" doc:"What an agent uses of the machine, and what it may use."`
	Path       string   `json:"path" doc:"Its path."`
	CPU        float64  `json:"cpu" minimum:"0" doc:"Cores, since the measurement before; 0 if there was none."`
	CPUSeconds float64  `json:"cpu_seconds" minimum:"0" doc:"Processor time, as far as it was measured."`
	Memory     uint64   `json:"memory_bytes" doc:"Resident memory. What processes share counts for each."`
	Processes  int      `json:"processes" minimum:"0" doc:"How many processes it has."`

	CPULimit     float64 `json:"cpu_limit,omitempty" minimum:"0" doc:"Cores that it may use; missing without a limit."`
	MemoryLimit  int64   `json:"memory_limit_bytes,omitempty" minimum:"0" doc:"Missing without a limit."`
	ProcessLimit uint64  `json:"process_limit,omitempty" doc:"Processes and threads; missing without a limit."`
}

// Resources returns what is used.
func (u Used) Resources() Resources {
	return Resources{CPU: u.CPU, CPUTime: time.Duration(u.CPUSeconds * float64(time.Second)), Memory: u.Memory,
		Processes: u.Processes}
}

// Timing of a Service. A measurement reads a file of each process of the machine.
const (
	minInterval = 2 * time.Second  // between two measurements
	lastsFor    = 10 * time.Second // until Last has it measured again
	// showCost and lastCost are how many times as long as a measurement has taken lie between two, at least: a fiftieth
	// and a two-hundredth of a core.
	showCost, lastCost = 50, 200
)

// Service measures agents for all who ask.
type Service struct {
	Nodes  func(ctx context.Context, path string) ([]status.Node, error)
	Host   string                        // this machine, as nodes name it
	Limits func(path string) spec.Limits // of an agent
	Go     func(func(context.Context))   // runs a function in the background

	measuring sync.Mutex // held during a measurement
	meter     Meter

	mu   sync.Mutex
	at   time.Time     // of the last measurement
	took time.Duration // by it
	used map[string]Resources
}

// Register adds the handler of the route to a server.
func (s *Service) Register(server *api.Server) {
	Show.Handle(server, func(ctx context.Context, _ token.Caller, r ShowRequest) ([]Used, error) {
		nodes, err := s.Nodes(ctx, r.Path)
		if err != nil {
			return nil, err
		}
		measured, err := s.measure(ctx)
		if err != nil {
			return nil, err
		}
		all := []Used{}
		for _, n := range nodes {
			if u, ok := measured[n.Path]; ok {
				l := s.Limits(n.Path)
				all = append(all, Used{
					Path: n.Path, CPU: u.CPU, CPUSeconds: u.CPUTime.Seconds(), Memory: u.Memory, Processes: u.Processes,
					CPULimit: l.CPU, MemoryLimit: l.Memory, ProcessLimit: l.Processes,
				})
			}
		}
		return all, nil
	})
}

// measure returns what agents use, measured within the last minInterval.
func (s *Service) measure(ctx context.Context) (map[string]Resources, error) {
	s.measuring.Lock()
	defer s.measuring.Unlock()
	if used, at, took := s.last(); time.Since(at) < max(minInterval, showCost*took) {
		return used, nil
	}
	nodes, err := s.Nodes(ctx, "")
	if err != nil {
		return nil, err
	}
	began := time.Now()
	used := s.meter.Sample(nodes, status.Controller{Host: s.Host})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used, s.at, s.took = used, time.Now(), time.Since(began)
	return used, nil
}

func (s *Service) last() (used map[string]Resources, at time.Time, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.at, s.took
}

// Last returns the last measurement without waiting for one; nil before the first. If it is older than 10 s, or more in
// a large fleet, another one begins, for the next call. The result must not be changed.
func (s *Service) Last() map[string]Resources {
	used, at, took := s.last()
	if time.Since(at) > max(lastsFor, lastCost*took) && s.measuring.TryLock() {
		s.measuring.Unlock()
		s.Go(func(ctx context.Context) { s.measure(ctx) }) // an error leaves the last measurement
	}
	return used
}
