package web

import (
	"net/url"
	"testing"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/status/statustest"
)

// A stream loads only the parts of its page: not the events that are there already, and no check of the system again.
func TestStreamLoadsParts(t *testing.T) {
	c := api.Local(statustest.Sample().Register)
	defer c.Close()
	s := newPages(c, t.TempDir(), newHub(t.Context(), c), newTerminals(t.Context(), c), parseTemplates(loadAssets()))
	for _, path := range []string{"/events", "/system"} {
		v, rest, ok := s.find(path)
		if !ok {
			t.Fatal(path)
		}
		q := query{rest: rest, values: url.Values{"check": {"1"}}, role: operator}
		whole, err := v.load(t.Context(), q)
		if err != nil || whole.data == nil {
			t.Errorf("%s: %+v, %v", path, whole, err)
		}
		q.parts = true
		parts, err := v.load(t.Context(), q)
		if err != nil || parts.data != nil || len(parts.parts) != len(whole.parts) {
			t.Errorf("%s of a stream: %+v, %v", path, parts, err)
		}
		if (parts.follow == nil) != (whole.follow == nil) {
			t.Errorf("%s: the stream follows something else", path)
		}
	}
}
