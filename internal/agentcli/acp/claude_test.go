package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// modelServer answers as the server of claude: first it calls a tool, then it answers with a text. Each answer costs
// 100 tokens of input and 20 of output.
func modelServer(t *testing.T) (url string, served *atomic.Int64) {
	served = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var request struct {
			Stream bool
			Tools  []json.RawMessage
		}
		json.Unmarshal(body, &request)
		if r.URL.Path != "/v1/messages" || !request.Stream {
			http.Error(w, `{"type":"error","error":{"type":"not_found_error","message":"none"}}`, http.StatusNotFound)
			return
		}
		served.Add(120)
		block, delta, stop := `{"type":"text","text":""}`, `{"type":"text_delta","text":"All is up."}`, "end_turn"
		if len(request.Tools) > 0 && !bytes.Contains(body, []byte("tool_result")) {
			block, stop = `{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}`, "tool_use"
			delta = `{"type":"input_json_delta","partial_json":"{\"command\":\"touch made\",\"description\":\"make\"}"}`
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range []string{
			`{"type":"message_start","message":{"id":"msg_` + fmt.Sprint(served.Load()) + `","type":"message",` +
				`"role":"assistant","model":"claude-sonnet-5-5","content":[],"stop_reason":null,` +
				`"usage":{"input_tokens":100,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":` + block + `}`,
			`{"type":"content_block_delta","index":0,"delta":` + delta + `}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"` + stop + `"},"usage":{"output_tokens":20}}`,
			`{"type":"message_stop"}`,
		} {
			kind, _, _ := strings.Cut(strings.TrimPrefix(e, `{"type":"`), `"`)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, e)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, served
}

// The adapter of claude, as it is installed, works with the client, and calls no tool that is refused.
func TestClaude(t *testing.T) {
	packages := exectest.Packages(t, "../../../.cache/clis")
	url, served := modelServer(t)
	home, dir := t.TempDir(), t.TempDir()
	t.Cleanup(func() { // claude itself saves files after its adapter has ended
		if err := new(proc.Sweeper).Sweep(context.Background(), "HOME="+home); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.Command(filepath.Join(packages, "node_modules/.bin/claude-agent-acp"))
	cmd.Dir = dir
	cmd.Stderr = &bytes.Buffer{}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "ANTHROPIC_API_KEY=none",
		"ANTHROPIC_BASE_URL=" + url, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}
	a, err := runCommand(t, cmd, Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, cmd.Stderr)
	}
	session, err := a.New(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Prompt(t.Context(), session, "is all up?")
	if err != nil || r.StopReason != EndTurn || !r.Known || r.Usage.Tokens() != served.Load() {
		t.Errorf("%+v, %v; the server has served %d tokens", r, err, served.Load())
	}
	a.Close()
	report := a.Report()
	if report.Text != "All is up." || report.Denied != 1 || report.Succeeded != 0 || len(report.Unknown) > 0 {
		t.Errorf("%+v", report)
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
		t.Error("the tool was called")
	}
	if v := a.verdict(""); v.Obstacle != outcome.PermissionDenied {
		t.Errorf("%+v", v)
	}
	if s := a.Stats(); s != (Stats{}) {
		t.Errorf("%+v", s)
	}
	if t.Failed() {
		t.Log(a.seen())
	}
}
