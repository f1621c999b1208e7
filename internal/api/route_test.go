package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/token"
)

type (
	searchRequest struct {
		Word  string   `json:"word" doc:"What is searched."`
		In    []string `json:"in,omitempty"`
		All   bool     `json:"all,omitempty"`
		After uint64   `json:"after,omitempty"`
	}
	searchResult struct {
		_    struct{}  `schema:"Found" doc:"What was found."`
		Who  string    `json:"who" maxLength:"9" doc:"Who has asked."`
		Size int       `json:"size,omitempty" minimum:"1" enum:"1,2" doc:"Of it."`
		At   time.Time `json:"at,omitzero" doc:"When it was."`
	}
)

var (
	search = Route[searchRequest, []searchResult]{
		Method: "GET", Path: "/search", For: People | Agents, ID: "search", Summary: "s", Returns: "r",
	}
	forget = Route[searchResult, None]{Method: "POST", Path: "/forget", For: People, MaxBody: 100, ID: "forgetIt", Summary: "s"}
	expect = Route[None, searchResult]{Method: "POST", Path: "/expect", For: Agents, Waits: true, ID: "expect", Summary: "s"}
)

// A client gets what the handler of a route has returned, and the handler what the client has sent.
func TestTypedRoutes(t *testing.T) {
	want := searchRequest{"w &=", []string{"a", "", "b"}, true, 7} // an empty one is not the same as none
	found := make(chan error, 1)
	s := newServer(canned{}, fastTimeouts())
	search.Handle(s, func(_ context.Context, who token.Caller, got searchRequest) ([]searchResult, error) {
		if got.Word == "nothing" {
			return nil, nil
		}
		if got.Word != want.Word || !slices.Equal(got.In, want.In) || !got.All || got.After != want.After {
			return nil, fmt.Errorf("%w: %+v", ErrInvalid, got)
		}
		return []searchResult{{Who: who.Path}}, nil
	})
	forget.Handle(s, func(context.Context, token.Caller, searchResult) (None, error) {
		return None{}, fmt.Errorf("it is kept: %w", ErrConflict)
	})
	expect.Handle(s, func(ctx context.Context, who token.Caller, _ None) (searchResult, error) {
		select {
		case err := <-found:
			return searchResult{Who: who.Path}, err
		case <-ctx.Done():
			return searchResult{}, ctx.Err()
		}
	})
	socket := serving(t, s)
	people, agent := dial(t, socket), DialAgent(socket, "good")
	defer agent.Close()
	ctx := t.Context()
	for path, c := range map[string]*Client{"": people, "app/a": agent} {
		if got, err := search.Call(ctx, c, want); err != nil || len(got) != 1 || got[0].Who != path {
			t.Errorf("%+v, %v, want %q", got, err, path)
		}
		if got, err := search.Call(ctx, c, searchRequest{Word: "nothing"}); err != nil || got == nil || len(got) != 0 {
			t.Errorf("%#v, %v", got, err)
		}
		if _, err := search.Call(ctx, c, searchRequest{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("without what is required: %v", err)
		}
	}
	if _, err := forget.Call(ctx, people, searchResult{}); !errors.Is(err, ErrConflict) || err.Error() != "it is kept: not possible now" {
		t.Error(err)
	}
	if _, err := forget.Call(ctx, people, searchResult{Who: fmt.Sprintf("%100d", 1)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a body that is too long: %v", err)
	}
	for _, end := range []error{nil, ErrNotFound} {
		found <- end
		if got, err := expect.Call(ctx, agent, None{}); !errors.Is(err, end) || end == nil && got.Who != "app/a" {
			t.Errorf("%+v, %v, want %v", got, err, end)
		}
	}
	for method, status := range map[string]int{"HEAD": 405, "POST": 405, "GET": 400} {
		req, _ := http.NewRequest(method, "http://x/v1/search", nil)
		resp, err := people.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if allow := resp.Header.Get("Allow"); resp.StatusCode != status || status == 405 && allow != "GET" {
			t.Errorf("%s: %s, allowed %q", method, resp.Status, allow)
		}
	}
}

// Without a daemon, what was registered is answered and nothing else is.
func TestTypedRoutesLocally(t *testing.T) {
	c := Local(func(s *Server) {
		search.Handle(s, func(context.Context, token.Caller, searchRequest) ([]searchResult, error) { return nil, nil })
	})
	defer c.Close()
	if _, err := search.Call(t.Context(), c, searchRequest{Word: "w"}); err != nil {
		t.Error(err)
	}
	if _, err := forget.Call(t.Context(), c, searchResult{}); !errors.Is(err, ErrDown) {
		t.Error(err)
	}
}

// A typed route is described by its types.
func TestTypedRouteDescribed(t *testing.T) {
	s := newServer(canned{}, defaultTimeouts())
	search.Handle(s, nil)
	var d struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(s.Description(), &d); err != nil {
		t.Fatal(err)
	}
	const failure = `"default":{"$ref":"#/components/responses/Failure"}`
	for what, test := range map[string]struct {
		got  json.RawMessage
		want string
	}{
		"route": {d.Paths["/v1/agent/search"]["get"], `{"operationId":"ownSearch","summary":"s","security":[{"agent":[]}],"parameters":[` +
			`{"name":"word","in":"query","required":true,"description":"What is searched.","schema":{"type":"string","maxLength":1024}},` +
			`{"name":"in","in":"query","description":"","schema":{"type":"array","items":{"type":"string","maxLength":1024}}},` +
			`{"name":"all","in":"query","description":"","schema":{"type":"boolean","default":false}},` +
			`{"name":"after","in":"query","description":"","schema":{"type":"integer","minimum":0}}],` +
			`"responses":{"200":{"description":"r","headers":{"Coppice-Api":{"$ref":"#/components/headers/Coppice-Api"}},"content":` +
			`{"application/json":{"schema":{"type":"array","items":{"$ref":"#/components/schemas/Found"},"description":"Empty, never null."}}}},` + failure + `}}`},
		"type": {d.Components.Schemas["Found"], `{"type":"object","description":"What was found.","properties":{` +
			`"who":{"type":"string","description":"Who has asked.","maxLength":9},` +
			`"size":{"type":"integer","minimum":1,"description":"Of it.","enum":["1","2"]},` +
			`"at":{"type":"string","description":"When it was.","format":"date-time"}},"required":["who"],"additionalProperties":false}`},
	} {
		var got, want any
		if err := errors.Join(json.Unmarshal(test.got, &got), json.Unmarshal([]byte(test.want), &want)); err != nil {
			t.Fatal(what, err)
		}
		if a, b := fmt.Sprint(got), fmt.Sprint(want); a != b {
			t.Errorf("%s:\n%s\nwant\n%s", what, a, b)
		}
	}
}
