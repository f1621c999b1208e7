package clitest

import (
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/otlp"
	"github.com/coppice-dev/coppice/internal/token"
)

// What claude exports is what the server has served, to the token, with what it costs.
func TestTelemetry(t *testing.T) {
	set := Installed(t, "../../../.cache/clis")
	for _, kind := range []Kind{Claude, ClaudeOAuth} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			exported := agentcli.Stream{CLI: agentcli.Claude}
			s := httptest.NewServer(otlp.New(
				func(secret string) (token.Caller, error) {
					if secret != "secret" {
						return token.Caller{}, errors.New("another token")
					}
					return token.Caller{}, nil
				},
				func(_ token.Caller, all []agentcli.Event) {
					mu.Lock()
					defer mu.Unlock()
					for _, e := range all {
						exported.Add(e)
					}
				},
			))
			defer s.Close()
			m := newModel(t)
			h := NewHome(t, set, kind, m.listener.URL("@", tag))
			address := strings.TrimPrefix(s.URL, "http://")
			h.more = otlp.Environ(agentcli.Claude, []string{"COPPICE_TOKEN=secret"}, address)
			m.answers(t, "tool")
			r := h.Start(t, "", "What is the answer?", nil)
			end := r.End(t)
			m.listener.Close()
			s.Close() // waits for the requests in progress
			served, _, _ := m.served(0)
			got := exported.Report()
			if !got.Known || got.Tokens() != served || served == 0 || !(got.Models.Total().Dollars > 0) {
				t.Errorf("exported %+v, the server has served %d tokens\n%v", got.Models, served, r)
			}
			if said := end.Record(); said.Usage.Total().Tokens() != served {
				t.Errorf("reported %+v", said.Usage)
			}
		})
	}
}
