package apitest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/token"
)

// counting counts the reported errors.
type counting struct {
	testing.TB
	errors int
}

func (c *counting) Errorf(string, ...any) { c.errors++ }

// An answer that is not as its types say is reported.
func TestDescribed(t *testing.T) {
	type bounded struct {
		Size int       `json:"size" maximum:"3" doc:"How much."`
		At   time.Time `json:"at,omitzero" doc:"When."`
	}
	for size, want := range map[int]int{3: 0, 4: 1} {
		s := api.NewServer(nil, nil)
		api.Route[api.None, bounded]{Method: http.MethodGet, Path: "/size", For: api.People, ID: "size"}.Handle(s,
			func(context.Context, token.Caller, api.None) (bounded, error) {
				return bounded{Size: size, At: time.Now()}, nil
			})
		c := &counting{TB: t}
		Described(c, s).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/size", nil))
		if c.errors != want {
			t.Errorf("size %d: %d errors, want %d", size, c.errors, want)
		}
	}
}
