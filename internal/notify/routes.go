package notify

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/token"
)

// Routes for notifications.
var (
	// List returns the ways by which people are notified.
	List = api.Route[api.None, []Info]{
		Method: http.MethodGet, Path: "/notify", For: api.People,
		ID: "listNotify", Summary: "List how people are notified",
		Doc:     "What they are told of, and what became of the last message.",
		Returns: "The tables [[notify]], in the order of the file.",
	}
	// Test sends a message that says that it is a test.
	Test = api.Route[TestRequest, []TestResult]{
		Method: http.MethodPost, Path: "/notify/test", For: api.People, Slow: true,
		ID: "testNotify", Summary: "Send a test message",
		Doc:     "It is sent at once, whatever the hour, and by one [[notify]] or by all.",
		Returns: "What became of each message.",
	}
	// Look tells that a person looks at what needs people.
	Look = api.Route[api.None, api.None]{
		Method: http.MethodPost, Path: "/notify/seen", For: api.People,
		ID: "seeNeeds", Summary: "Tell that a person looks",
		Doc: "For programs that show what needs people, when a person has just done something in them. For a minute " +
			"after that, people are told of nothing that is not urgent.",
	}
)

// Info is a way by which people are notified.
type Info struct {
	_        struct{}  `schema:"Notify" doc:"A way by which people are notified."`
	Name     string    `json:"name" doc:"Its name."`
	Via      string    `json:"via" enum:"webhook,ntfy,slack,mail,desktop,command" doc:"How people are told."`
	On       []string  `json:"on" doc:"What they are told of."`
	Pending  int       `json:"pending" minimum:"0" doc:"What they are not told of yet."`
	LastSent time.Time `json:"last_sent,omitzero" doc:"When a message was delivered."`
	Error    string    `json:"error,omitempty" doc:"Why the last message was not delivered."`
	RetryAt  time.Time `json:"retry_at,omitzero" doc:"When it is tried again."`
	HeldTill time.Time `json:"held_till,omitzero" doc:"Until when nothing is told that is not urgent, as somebody looks."`
}

// TestRequest names a [[notify]].
type TestRequest struct {
	_    struct{} `schema:"NotifyTestRequest" doc:"Which messages to send."`
	Name string   `json:"name,omitempty" maxLength:"1024" doc:"That of one [[notify]]; all if it is missing."`
}

// TestResult is the result of a test message.
type TestResult struct {
	_     struct{} `schema:"NotifyTestResult" doc:"What became of a test message."`
	Name  string   `json:"name" doc:"The [[notify]]."`
	Via   string   `json:"via" doc:"How it was sent."`
	Error string   `json:"error,omitempty" doc:"Why it was not delivered; missing if it was."`
}

// ErrNotFound means that there is no such [[notify]].
var ErrNotFound = api.NewError(api.ErrNotFound, "no such [[notify]]")

// Register adds the handlers of all routes to a server.
func (m *Manager) Register(s *api.Server) {
	List.Handle(s, func(context.Context, token.Caller, api.None) ([]Info, error) { return m.List(), nil })
	Look.Handle(s, func(context.Context, token.Caller, api.None) (api.None, error) {
		m.Seen()
		return api.None{}, nil
	})
	Test.Handle(s, func(ctx context.Context, _ token.Caller, r TestRequest) ([]TestResult, error) {
		return m.Test(ctx, r.Name)
	})
}

// List returns how people are notified.
func (m *Manager) List() []Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []Info{}
	for _, n := range m.Settings() {
		info := Info{Name: n.Name, Via: string(n.Via), On: []string{}, HeldTill: present(m.seen, time.Now())}
		for _, k := range n.On {
			info.On = append(info.On, string(k))
		}
		if k := m.sinks[n.Name]; k != nil {
			info.LastSent, info.Error, info.RetryAt = k.state.LastSent, k.state.LastError, k.state.RetryAt
			for _, item := range k.state.Items {
				if !item.Told {
					info.Pending++
				}
			}
		}
		all = append(all, info)
	}
	return all
}

// Test sends a test message by one [[notify]], or by all if the name is empty, and waits until it was delivered.
func (m *Manager) Test(ctx context.Context, name string) ([]TestResult, error) {
	var chosen []spec.Notify
	var names []string
	for _, n := range m.Settings() {
		names = append(names, n.Name)
		if name == "" || n.Name == name {
			chosen = append(chosen, n)
		}
	}
	if name != "" && len(chosen) == 0 {
		if hint := suggest.Nearest(name, names); hint != "" {
			return nil, fmt.Errorf("%w: %.100q; did you mean %q?", ErrNotFound, name, hint)
		}
		return nil, fmt.Errorf("%w: %.100q", ErrNotFound, name)
	}
	results := make([]TestResult, len(chosen))
	var sending sync.WaitGroup
	for i := range chosen {
		n := &chosen[i]
		results[i] = TestResult{Name: n.Name, Via: string(n.Via)}
		sending.Go(func() {
			if err := m.deliver(ctx, n, newTest(n, m.Project(), time.Now())); err != nil {
				results[i].Error = plaintext.OneLine(err.Error(), maxReason)
			}
		})
	}
	sending.Wait()
	return results, nil
}
