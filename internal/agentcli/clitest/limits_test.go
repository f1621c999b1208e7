package clitest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli/limits"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// Claude tells what is left of its account before a run, with a login: without a call of the model, and without the
// hooks and MCP servers of the project. Of other accounts it tells nothing.
func TestLimits(t *testing.T) {
	set := Installed(t, "../../../.cache/clis")
	const quiet = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"
	for _, c := range []struct {
		name   string
		kind   Kind
		login  bool
		answer string   // of the model
		more   []string // variables
		used   float64
		err    error
	}{
		{name: "login", kind: ClaudeOAuth, login: true, answer: "normal", used: 0.5},
		{name: "used up", kind: ClaudeOAuth, login: true, answer: "quota", used: 1},
		{name: "quiet", kind: ClaudeOAuth, login: true, answer: "quota", more: []string{quiet}},
		{name: "token", kind: ClaudeOAuth, answer: "quota", err: limits.ErrNoPlan},
		{name: "key", kind: Claude, answer: "quota", err: limits.ErrNoPlan},
		{name: "login and key", kind: Claude, login: true, answer: "quota", err: limits.ErrNoPlan},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t)
			m.answers(t, c.answer)
			h := NewHome(t, set, c.kind, m.listener.URL("@", tag))
			env := append(newVendor(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.URL.Path = "/s/@/" + tag + r.URL.Path
				r.URL.RawPath = ""
				m.ServeHTTP(w, r)
			})), c.more...)
			env = append(env, slices.DeleteFunc(h.environ(), func(kv string) bool {
				return kv == quiet || c.login && strings.HasPrefix(kv, "CLAUDE_CODE_OAUTH_TOKEN=")
			})...)
			if c.login {
				h.write(t, ".claude/.credentials.json", fmt.Sprintf(`{"claudeAiOauth": {
					"accessToken": "sk-ant-oat01-none",
					"refreshToken": "sk-ant-ort01-none", "expiresAt": %d, "subscriptionType": "max",
					"scopes": ["user:inference", "user:profile"]}}`, time.Now().Add(time.Hour).UnixMilli()))
			}
			touched := filepath.Join(h.dir, "touched")
			h.write(t, "work/.claude/settings.json", fmt.Sprintf(`{"enableAllProjectMcpServers": true, "hooks":
				{"SessionStart": [{"hooks": [{"type": "command", "command": "touch %s"}]}]}}`, touched))
			h.write(t, "work/.mcp.json", fmt.Sprintf(
				`{"mcpServers": {"x": {"command": "touch", "args": [%q]}}}`, touched))
			began := time.Now()
			got, err := limits.Ask(t.Context(), proc.Command{
				Argv: limits.Command(h.command("")), Dir: h.work, Env: env,
			})
			t.Logf("%v: %+v, %v", time.Since(began).Round(time.Millisecond), got, err)
			if !errors.Is(err, c.err) {
				t.Error(err)
			}
			if (len(got.Windows) == 2) != (c.used > 0) {
				t.Fatalf("%+v", got)
			}
			for _, w := range got.Windows {
				late := time.Until(w.Resets)
				if late <= 0 || late > 4*24*time.Hour || w.Name == limits.FiveHour && w.Used != c.used {
					t.Errorf("%+v", w)
				}
			}
			for _, r := range m.Ledger(tag) {
				if strings.Contains(r.Path, "/messages") {
					t.Errorf("the model was called: %+v", r)
				}
			}
			if _, err := os.Stat(touched); err == nil {
				t.Error("a hook or a server of the project has run")
			}
		})
	}
}
