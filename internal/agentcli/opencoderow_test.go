package agentcli

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// Rows of the database of opencode, as 1.18.33 writes them.
func TestOpencodeRows(t *testing.T) {
	const (
		user = `{"session":"ses_1","version":"1.18.33","created":1000,` +
			`"data":{"role":"user","time":{"created":1000},"agent":"build"}}`
		failed = `{"session":"ses_1","created":1001,"data":{"role":"assistant","error":{"name":"APIError","data":{` +
			`"message":"The usage limit has been reached","statusCode":429,"isRetryable":true,"responseHeaders":{},` +
			`"responseBody":"{\"error\":{\"type\":\"usage_limit_reached\",\"resets_at\":1795865936}}"}}}}`
		step = `{"session":"ses_1","created":1001,"model":"m","part":"prt_1","data":{"reason":%q,"type":"step-finish",` +
			`"tokens":{"total":1376,"input":1112,"output":46,"reasoning":7,"cache":{"write":3,"read":211}},"cost":0.5}}`
		part = `{"session":"ses_1","created":1001,"model":"m","part":"prt_2","data":%s}`
	)
	used := Models{"m": {Input: 1112, CacheRead: 211, CacheWrite: 3, Output: 53, Dollars: 0.5}}
	for what, c := range map[string]struct {
		rows    []string
		models  Models
		failure string
		said    string
		unknown string
	}{
		"a prompt": {rows: []string{user}},
		"a step, twice": {
			rows: []string{user, fmt.Sprintf(step, "stop"), fmt.Sprintf(step, "stop")}, models: used,
		},
		"an answer too long":   {rows: []string{fmt.Sprintf(step, "length")}, models: used, failure: "length"},
		"a failure":            {rows: []string{user, failed}, failure: "usage_limit_reached"},
		"it goes on":           {rows: []string{failed, user}},
		"a text":               {rows: []string{fmt.Sprintf(part, `{"type":"text","text":"hello"}`)}, said: "hello"},
		"a step without a sum": {rows: []string{fmt.Sprintf(part, `{"type":"step-finish"}`)}, unknown: OpencodeStep},
		"a part":               {rows: []string{fmt.Sprintf(part, `{"type":"dance"}`)}, unknown: "part dance"},
		"a part without data":  {rows: []string{fmt.Sprintf(part, `null`)}, unknown: "part "},
		"a message":            {rows: []string{`{"created":1001,"data":{"role":"robot"}}`}, unknown: "message robot"},
		"a message, no object": {rows: []string{`{"created":1001,"data":[7]}`}, unknown: "message "},
		"before the call":      {rows: []string{`{"created":999,"part":"p","data":{"type":"tool","callID":"c"}}`}},
		"wrong types":          {rows: []string{`{"created":"x","part":7,"data":7}`}},
	} {
		s := Stream{CLI: Opencode, Source: FromSession, Since: time.UnixMilli(1000)}
		for _, row := range c.rows {
			s.Write([]byte(row + "\n"))
		}
		r := s.Report()
		failure := ""
		if len(r.Failures) > 0 {
			failure = r.Failures[0].Code
			if r.Failures[0].Source != FromSession {
				t.Errorf("%s: %+v", what, r.Failures)
			}
		}
		unknown := map[string]int(nil)
		if c.unknown != "" {
			unknown = map[string]int{c.unknown: 1}
		}
		if !maps.Equal(r.Models, c.models) || failure != c.failure || r.Failed != (failure != "") || r.Said != c.said ||
			!maps.Equal(r.Unknown, unknown) || r.Calls != 0 {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

// What ends opencode where its output is a screen, or over ACP, is known from its database.
func TestOpencodeLimit(t *testing.T) {
	session := Stream{CLI: Opencode, Source: FromSession}
	session.Write([]byte(`{"created":1,"data":{"role":"assistant","error":{"name":"APIError","data":{"message":"no",` +
		`"statusCode":429,"responseBody":"{\"error\":{\"type\":\"usage_limit_reached\",` +
		`\"resets_at\":4000000000}}"}}}}` + "\n"))
	for _, e := range []End{{CLI: Opencode}, {CLI: ACP, Vendor: Opencode}} {
		e.Exit, e.Code, e.Session, e.Now = "exit code 1", 1, session.Report(), time.Now()
		r := e.Record()
		reset := time.Unix(4_000_000_000, 0)
		if r.Obstacle != outcome.UsageLimit || !r.Reset.Equal(reset) || r.ResetFrom != FromSession {
			t.Errorf("%s: %+v", e.CLI, r.Verdict)
		}
		if r, ok := e.Refusal(); !ok || r.Obstacle != outcome.UsageLimit {
			t.Errorf("%s goes on: %+v", e.CLI, r.Verdict)
		}
	}
}
