// Package output shows what agents write: their logs, the line they are writing, and their
// terminals. It reads the files of the runtimes, with a daemon or without.
package output

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// Tree provides the nodes of the project.
type Tree interface {
	Full(path string) string    // the full path, given an abbreviated one
	NotFound(path string) error // the error for a path without a node
	HasAgent(path string) bool  // whether there is such an agent
	HasSupervisor(path string) bool
	StartOrder() []string // the paths of all nodes
	LastIncarnation(path string) uint64
}

// Agents provides the runtimes and sessions of agents: see agent.Manager.
type Agents interface {
	Runtimes() map[string]runtime.Runtime
	Home(path string) runtime.Runtime
	Session(path string) runtime.Session
}

// Options configure a Service.
type Options struct {
	Tree   Tree
	Agents Agents
	Node   string // of a fleet, on which this process runs; empty without a fleet
	// Typing is called when a person starts to type into an agent's terminal, and done when that
	// ends.
	Typing func(path string) (done func())
	Ended  <-chan struct{} // closed when nothing more will be written
}

// Service shows the output of the agents of a project.
type Service struct{ opts Options }

// New returns a Service for the agents of a project.
func New(o Options) *Service { return &Service{o} }

// Register adds the handlers of all output routes to a server.
func (s *Service) Register(server *api.Server) {
	HandleLogs(server, s.Logs)
	HandleUnfinished(server, s.Unfinished)
	api.HandleAttach(server, s.Attach)
}

// RegisterReadOnly adds the handler of logs that works without a daemon. A query that follows ends
// with api.ErrDown.
func (s *Service) RegisterReadOnly(server *api.Server) {
	HandleLogs(server, func(ctx context.Context, q Query) iter.Seq2[Line, error] {
		follow := q.Follow
		q.Follow = false
		return api.Finite(s.Logs(ctx, q), follow)
	})
}

// Last returns the last lines in the log of an agent, on the node where it was started last. The
// error is fs.ErrNotExist if there is no log.
func (s *Service) Last(path string, n int) ([]string, error) {
	if far, ok := s.currentLog(path); ok {
		return lastOf(far, n)
	}
	file, err := s.file(path)
	if err != nil {
		return nil, err
	}
	return logfile.Peek(file, n)
}

// Attach connects a person with an agent's terminal; see runtime.Attachment.
func (s *Service) Attach(ctx context.Context, path string, v api.Viewer) error {
	path = s.opts.Tree.Full(path)
	switch {
	case s.opts.Tree.HasSupervisor(path):
		return fmt.Errorf("%s is a supervisor, which has no output of its own: %w", path, api.ErrConflict)
	case !s.opts.Tree.HasAgent(path):
		return s.opts.Tree.NotFound(path)
	}
	session := s.session(path)
	if session == nil {
		return notStarted(path)
	}
	if v.Input != nil {
		defer s.opts.Typing(path)()
	}
	err := session.Attach(ctx, runtime.Attachment(v))
	if errors.Is(err, runtime.ErrUnsupported) {
		err = fmt.Errorf("%w: it was started without a terminal; to apply the file, run: coppice restart %s",
			api.ErrConflict, path)
	}
	return err
}

// session returns the last session of an agent, nil if there was none yet.
func (s *Service) session(path string) runtime.Session { return s.opts.Agents.Session(path) }

// file returns the log file of an agent: that of its slot in its current runtime, or else of
// another slot. If none exists, it returns the name of the first and fs.ErrNotExist. Links are not
// followed; reading one fails.
func (s *Service) file(path string) (string, error) {
	name, missing := "", fs.ErrNotExist
	if home := s.opts.Agents.Home(path); home != nil {
		file, err := home.Log(path)
		if err != nil {
			return "", err
		}
		if _, missing = os.Lstat(file); missing == nil {
			return file, nil
		}
		name = file
	}
	runtimes := s.opts.Agents.Runtimes()
	for _, kind := range slices.Sorted(maps.Keys(runtimes)) {
		if file, err := runtimes[kind].Log(path); err == nil {
			if _, err := os.Lstat(file); err == nil {
				return file, nil
			}
		}
	}
	return name, missing
}

// agents returns the agents at and below some paths, in start order; all of them if there are no
// paths. Those of removed follow that are not in the tree.
func (s *Service) agents(paths, removed []string) ([]string, error) {
	tree := s.opts.Tree
	if len(paths) == 0 {
		paths = []string{""}
	}
	full := make([]string, len(paths))
	for i, path := range paths {
		full[i] = tree.Full(path)
		if tree.HasAgent(full[i]) || tree.HasSupervisor(full[i]) || slices.Contains(removed, full[i]) {
			continue
		}
		ending := slices.DeleteFunc(slices.Clone(removed), func(r string) bool {
			return !strings.HasSuffix(r, "/"+strings.Trim(path, "/"))
		})
		if len(ending) != 1 {
			return nil, tree.NotFound(full[i])
		}
		full[i] = ending[0]
	}
	var all []string
	add := func(path string) {
		if slices.ContainsFunc(full, func(at string) bool {
			return path == at || strings.HasPrefix(path, at+"/")
		}) {
			all = append(all, path)
		}
	}
	for _, path := range tree.StartOrder() {
		if tree.HasAgent(path) {
			add(path)
		}
	}
	for _, path := range removed {
		if !tree.HasAgent(path) {
			add(path)
		}
	}
	return all, nil
}

// areAgents reports whether there are paths, which are those of agents.
func (s *Service) areAgents(paths []string) bool {
	return len(paths) > 0 && !slices.ContainsFunc(paths, func(path string) bool {
		return !s.opts.Tree.HasAgent(s.opts.Tree.Full(path))
	})
}

// removed returns the paths of the agents that were removed and whose logs are kept.
func (s *Service) removed() []string {
	all := map[string]bool{}
	for _, r := range s.opts.Agents.Runtimes() {
		paths, _ := r.Removed() // what cannot be read is not shown
		for _, path := range paths {
			all[path] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// neverStarted returns an error if an agent has no log and has never run.
func (s *Service) neverStarted(path string) error {
	if _, err := s.file(path); errors.Is(err, fs.ErrNotExist) && s.opts.Tree.LastIncarnation(path) == 0 {
		return notStarted(path)
	}
	return nil
}

func notStarted(path string) error {
	return fmt.Errorf("%s has not been started yet: %w", path, api.ErrConflict)
}
