package controller

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api/apitest"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/task"
)

// All features together have one description, in which each operation has a name of its own.
func TestDescription(t *testing.T) {
	c := &Controller{}
	var d struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(c.Server().Description(), &d); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	for path, methods := range d.Paths {
		for method, o := range methods {
			if other := names[o.OperationID]; other != "" || o.OperationID == "" {
				t.Errorf("%s %s is called %q, as %s is", method, path, o.OperationID, other)
			}
			names[o.OperationID] = path
		}
	}
	for name, path := range map[string]string{
		"listOwnMail": "/v1/agent/mail", "answer": "/v1/answer", "claimOutcome": "/v1/agent/outcome", "nodes": "/v1/nodes",
	} {
		if names[name] != path {
			t.Errorf("%s is %q, want %s", name, names[name], path)
		}
	}
}

// What a fleet answers is as the API describes it, for people and for agents.
func TestAnswersAsDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage()
		s.plays("t/flaky", part{lives: time.Second})
		p := raise(t, s, memory.New(), treeOf(t, "a", "flaky", "g:one_for_all(b c)"))
		defer p.close()
		time.Sleep(time.Minute)
		for _, title := range []string{"one", "two"} {
			if _, err := p.work.Submit(t.Context(), task.Actor{Name: "user"}, task.Draft{Title: title}); err != nil {
				t.Fatal(err)
			}
		}
		server := p.Server()
		handler := apitest.Described(t, server)
		var d struct {
			Paths map[string]map[string]struct {
				Parameters []struct {
					Name     string
					Required bool
				}
			}
		}
		if err := json.Unmarshal(server.Description(), &d); err != nil {
			t.Fatal(err)
		}
		answered := 0
		for path, methods := range d.Paths {
			get, ok := methods["get"]
			if !ok || path == "/v1/openapi.json" || path == "/v1/farewell" || strings.HasSuffix(path, "/unfinished") {
				continue // those that wait, for an end or for output
			}
			query := url.Values{}
			for _, p := range get.Parameters {
				if p.Required {
					query.Set(p.Name, "flaky")
				}
			}
			r := httptest.NewRequest(http.MethodGet, path+"?"+query.Encode(), nil)
			if strings.HasPrefix(path, "/v1/agent") {
				r.Header.Set("Authorization", "Bearer "+tokenIn(s.on("t/a").launch.Env))
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			switch w.Code {
			case http.StatusOK:
				answered++
			case http.StatusNotFound, http.StatusConflict: // there is no such order or question
			default:
				t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
			}
		}
		if answered < 20 {
			t.Errorf("only %d answers are no failures", answered)
		}
	})
}

// tokenIn returns the token in the environment of an agent.
func tokenIn(env []string) string {
	for _, entry := range env {
		if token, ok := strings.CutPrefix(entry, proc.EnvToken+"="); ok {
			return token
		}
	}
	return ""
}
