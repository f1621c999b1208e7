package api

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/token"
)

// Who calls is checked before anything else is looked at, on every route.
func TestTokens(t *testing.T) {
	s := newServer(canned{full: true}, fastTimeouts())
	standInActs(s, canned{})
	client := dial(t, serving(t, s))
	for _, rt := range s.routes {
		for _, test := range []struct {
			authorization  string
			agent, persons int // status
		}{
			{"", 0, 0},
			{"Bearer good", 0, http.StatusUnauthorized},
			{"Bearer stale", http.StatusGone, http.StatusGone},
			{"Bearer ", http.StatusUnauthorized, http.StatusUnauthorized},
			{"Bearer " + strings.Repeat("x", 300), http.StatusUnauthorized, http.StatusUnauthorized},
			{"Basic abc", http.StatusUnauthorized, http.StatusUnauthorized},
		} {
			want := test.persons
			if rt.agent {
				want = test.agent
				if test.authorization == "" {
					want = http.StatusUnauthorized
				}
			}
			token, _ := strings.CutPrefix(test.authorization, "Bearer ")
			if want == 0 || !rt.agent && rt.method == http.MethodGet && (token == "good" || token == "stale") {
				continue // what it does when it is allowed has tests of its own
			}
			req, err := http.NewRequest(rt.method, "http://x"+rt.path, strings.NewReader("no JSON"))
			if err != nil {
				t.Fatal(err)
			}
			if test.authorization != "" {
				req.Header.Set("Authorization", test.authorization)
			}
			resp, err := client.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s %s with %.20q: %s, want %d: %s", rt.method, rt.path, test.authorization, resp.Status, want, body)
			}
		}
		if strings.HasPrefix(rt.path, "/v1/agent") != rt.agent {
			t.Errorf("%s: agent is %v", rt.path, rt.agent)
		}
	}
}

// TestCaller checks that the token identifies the agent.
func TestCaller(t *testing.T) {
	s := start(t, canned{full: true}, "", fastTimeouts())
	for given, want := range map[string]error{"good": nil, "stale": token.ErrStale, "": ErrUnauthorized} {
		c := DialAgent(s.socket, given)
		who, err := whoRoute.Call(t.Context(), c, None{})
		c.Close()
		if !errors.Is(err, want) || want == nil && who != (token.Caller{Path: "app/a", Incarnation: 1}) {
			t.Errorf("token %q: %v, %v; want %v", given, who, err, want)
		}
	}
}
