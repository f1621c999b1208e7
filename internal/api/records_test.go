package api

import (
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
)

// local returns a client of records.
func local(r Records) *Client { return Local(func(s *Server) { RegisterRecords(s, r) }) }

// Records answers exactly the routes that are said to be its own; whatever else
// is asked, of agents above all, needs a daemon.
func TestRecordRoutes(t *testing.T) {
	c := local(canned{full: true})
	defer c.Close()
	left := len(recordRoutes)
	for _, rt := range routes() {
		name := rt.method + " " + rt.path
		query := url.Values{}
		for _, p := range rt.params {
			if p.required {
				query.Set(p.name, "a")
			}
		}
		var body any
		if rt.body != nil {
			body = rt.body
		}
		req, err := c.request(t.Context(), rt.method, strings.TrimPrefix(rt.path, "/v"+Version), query, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		switch recorded := recordRoutes[name]; {
		case recorded && err != nil:
			t.Errorf("%s: %v", name, err)
		case recorded:
			left--
		case !errors.Is(err, ErrDown):
			t.Errorf("%s without a daemon: %v", name, err)
		}
	}
	if left != 0 {
		t.Errorf("%d of the routes of records do not exist", left)
	}
}

// What is there comes first, then that nothing more does.
func TestFollowRecords(t *testing.T) {
	c := local(canned{events: func(_ context.Context, after uint64, yield func(event.Event, error) bool) {
		if yield(numbered(1), nil) && yield(numbered(2), nil) {
			yield(event.Event{}, ErrDown)
		}
	}})
	defer c.Close()
	var seen []uint64
	var last error
	for e, err := range c.Events(t.Context(), event.Query{Follow: true}) {
		if last = err; err == nil {
			seen = append(seen, e.Seq)
		}
	}
	if !slices.Equal(seen, []uint64{1, 2}) || !errors.Is(last, ErrDown) {
		t.Errorf("%v, %v", seen, last)
	}
}
