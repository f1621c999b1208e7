package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/control"
	"github.com/coppice-dev/coppice/internal/drain"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
)

// action is what may be done with nodes.
type action struct {
	Name, Label, Done, Effect string
}

// actions returns all actions, in the order in which they are offered.
func actions() []action {
	return []action{
		{"start", "Start", "started", "What is stopped or held back is started."},
		{"stop", "Stop", "stopped",
			"They are stopped, and stay so until they are started by hand, also in later daemons."},
		{"restart", "Restart", "restarted", "They are stopped and started again. It counts as no failure."},
		{"drain", "Drain", "asked to finish",
			"They are asked to finish their work within 5 minutes, and are stopped then."},
		{"reset", "Reset", "reset", "Their failure counts go back to zero, and those that a limit holds are started."},
		{"suspend", "Suspend", "suspended", "They are stopped until they are resumed."},
		{"resume", "Resume", "resumed", "Those that were suspended or paused go on."},
	}
}

// actionNamed returns an action.
func actionNamed(name string) (action, bool) {
	for _, a := range actions() {
		if a.Name == name {
			return a, true
		}
	}
	return action{}, false
}

const (
	maxPaths    = 1000            // of one request
	maxParallel = 8               // actions of one request at a time
	actTime     = 5 * time.Second // after which a request is answered while its actions go on
)

// confirmation is what a page asks to confirm.
type confirmation struct {
	action
	Paths []string // as they were selected
	Below []string // the agents that this concerns
	Back  string
}

// confirm asks whether an action is wanted, and shows all agents that it concerns.
func (s *Server) confirm(w http.ResponseWriter, r *http.Request, who visitor) {
	v := r.URL.Query()
	a, ok := actionNamed(v.Get("action"))
	paths := v["path"]
	switch {
	case !ok:
		s.refuse(w, http.StatusBadRequest, "There is no such action", fmt.Sprintf("%.40q", v.Get("action")))
		return
	case len(paths) == 0:
		s.refuse(w, http.StatusBadRequest, "Nothing is selected", "Select agents or supervisors first.")
		return
	case len(paths) > maxPaths:
		s.refuse(w, http.StatusBadRequest, "Too much is selected",
			fmt.Sprintf("Select a supervisor instead of %d nodes.", len(paths)))
		return
	}
	nodes, err := status.List.Call(r.Context(), s.Client, status.ListRequest{})
	if err != nil {
		s.fail(w, err)
		return
	}
	c := confirmation{action: a, Paths: paths, Back: local(v.Get("back"))}
	for _, n := range nodes {
		if n.Kind == "agent" && slices.ContainsFunc(paths, func(path string) bool {
			return n.Path == path || strings.HasPrefix(n.Path, path+"/")
		}) {
			c.Below = append(c.Below, n.Path)
		}
	}
	s.render(w, r, http.StatusOK, "confirm", layout{Title: c.Label + "?", Nav: "tree", Role: who.role, Data: c})
}

// act carries out an action.
func (s *Server) act(w http.ResponseWriter, r *http.Request, who visitor) {
	a, ok := actionNamed(r.PostFormValue("action"))
	paths := r.PostForm["path"]
	if !ok || len(paths) == 0 || len(paths) > maxPaths {
		s.refuse(w, http.StatusBadRequest, "The form is not complete", "It needs an action and at least one path.")
		return
	}
	var mu sync.Mutex
	changed, left, failed := 0, len(paths), []string(nil)
	ended := make(chan struct{})
	slots := make(chan struct{}, maxParallel)
	s.acting.Go(func() {
		defer close(ended)
		var all sync.WaitGroup
		defer all.Wait()
		for _, path := range paths {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				n, err := s.carryOut(s.ctx, a, path)
				mu.Lock()
				defer mu.Unlock()
				left--
				changed += n
				if err != nil && !errors.Is(err, context.Canceled) {
					failed = append(failed, err.Error())
				}
			})
		}
	})
	late := time.NewTimer(actTime)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
	case <-r.Context().Done():
		return
	}
	mu.Lock()
	text := fmt.Sprintf("%s: %s", a.Done, plaintext.Plural(changed, "node"))
	if left > 0 {
		text += fmt.Sprintf("; still under way: %d", left)
	}
	if len(failed) > 0 {
		text += "; failed: " + strings.Join(failed[:min(3, len(failed))], "; ")
		if more := len(failed) - 3; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
	}
	mu.Unlock()
	s.back(w, r, who, text)
}

// carryOut carries out an action on a node, and returns how many nodes it has changed.
func (s *Server) carryOut(ctx context.Context, a action, path string) (int, error) {
	if a.Name == "drain" {
		_, err := drain.Begin.Call(ctx, s.Client, drain.Request{Path: path})
		return 1, err
	}
	acted, err := control.Act.Call(ctx, s.Client, control.ActRequest{Path: path, Action: control.Action(a.Name)})
	return acted.Changed, err
}

// back sends the browser to the page that it came from, which says what was done.
func (s *Server) back(w http.ResponseWriter, r *http.Request, who visitor, done string) {
	s.sessions.setDone(who, plaintext.OneLine(done, 1000))
	http.Redirect(w, r, local(r.PostFormValue("back")), http.StatusSeeOther)
}

// local returns a path of this server, or the overview for anything else.
func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(path, "//") || strings.Contains(path, `\`) {
		return "/"
	}
	return path
}

// agentURL returns the page of a node.
func agentURL(path string) string { return (&url.URL{Path: "/agent/" + path}).String() }
