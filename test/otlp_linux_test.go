package test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// exportedCall is what claude exports of a call of the model.
const exportedCall = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"attributes":[
{"key":"event.name","value":{"stringValue":"api_request"}},{"key":"model","value":{"stringValue":"opus"}},
{"key":"request_id","value":{"stringValue":"%s"}},{"key":"input_tokens","value":{"intValue":100}},
{"key":"cost_usd","value":{"doubleValue":0.5}}]}]}]}]}`

// What an agent in a terminal exports is in the ledger when it was killed. A token of an incarnation that is over is
// refused.
func TestOTLP(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	f := newFleet(t, "[otlp]\nlisten = \""+address+"\"\n", `
[[agent]]
name = "a"
command = ["./claude"]
terminal = true
restart = "never"
[[agent]]
name = "b"
command = ["./claude"]
restart = "never"
env = { OTEL_EXPORTER_OTLP_ENDPOINT = "http://example.com" }
`)
	exectest.Write(t, filepath.Join(f.dir, "claude"), `#!/bin/sh
name=${COPPICE_AGENT#*/}
env >new.$name && mv new.$name env.$name
exec sleep 1000
`)
	f.do("up", "-d")
	vars := map[string]string{}
	for line := range strings.Lines(f.awaitFile("env.a")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		vars[name] = value
	}
	if vars["OTEL_EXPORTER_OTLP_ENDPOINT"] != "http://"+address || vars["CLAUDE_CODE_ENABLE_TELEMETRY"] != "1" {
		t.Fatalf("%v", vars)
	}
	if env := f.awaitFile("env.b"); !strings.Contains(env, "http://example.com") || strings.Contains(env, address) {
		t.Errorf("what a user has set is changed: %s", env)
	}
	_, header, _ := strings.Cut(vars["OTEL_EXPORTER_OTLP_HEADERS"], "=")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	export := func(request string) int {
		t.Helper()
		body := strings.NewReader(fmt.Sprintf(exportedCall, request))
		q, err := http.NewRequest("POST", vars["OTEL_EXPORTER_OTLP_ENDPOINT"]+"/v1/logs", body)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", header)
		q.Header.Set("Content-Type", "application/json")
		status := 0
		eventually(t, "an answer", func() bool {
			q.Body, err = q.GetBody()
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(q)
			if err != nil { // it does not listen yet
				return false
			}
			answer.Body.Close()
			status = answer.StatusCode
			return true
		})
		return status
	}
	for _, request := range []string{"r1", "r2", "r2"} {
		if status := export(request); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	f.do("stop", "a")
	r := f.costs("--by", "model")
	row := r.Rows[0]
	if row.Name != "opus" || row.Tokens == nil || *row.Tokens != 200 || row.Dollars == nil || *row.Dollars != 1 {
		t.Errorf("%+v", r)
	}
	if status := export("r3"); status != http.StatusUnauthorized {
		t.Errorf("status %d after the end of the agent", status)
	}
}
