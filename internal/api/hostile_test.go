package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Whatever arrives at the socket, the answer is a failure, and the next client is served.
func TestHostile(t *testing.T) {
	p := fastTimeouts()
	p.header, p.body = 200*time.Millisecond, 50*time.Millisecond
	s := start(t, canned{full: true}, "", p)
	const json = "Host: x\r\nContent-Type: application/json\r\n"
	body := func(text string) string { return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", json, len(text), text) }
	for name, tc := range map[string]struct{ send, want string }{
		"garbage":            {"\x00\x01\x02\xff\r\n\r\n", " 400 "},
		"half a line":        {"GET /v1/sta", ""},
		"http 2":             {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""},
		"another version":    {"GET /v2/status HTTP/1.1\r\nHost: x\r\n\r\n", `"unsupported"`},
		"no version":         {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", `"unsupported"`},
		"a way out":          {"GET /v1/../v1/status HTTP/1.1\r\nHost: x\r\n\r\n", `"unsupported"`},
		"another method":     {"PUT /v1/status HTTP/1.1\r\nHost: x\r\n\r\n", " 405 "},
		"no host":            {"GET /v1/status HTTP/1.1\r\n\r\n", " 400 "},
		"long line":          {"GET /v1/" + strings.Repeat("x", 100_000) + " HTTP/1.1\r\n\r\n", ""},
		"long header":        {"GET /v1/status HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 100_000) + "\r\n\r\n", " 431 "},
		"many headers":       {"GET /v1/status HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: x\r\n", 20_000) + "\r\n", " 431 "},
		"unknown parameter":  {"GET /v1/nodes?pth=x HTTP/1.1\r\nHost: x\r\n\r\n", `unknown parameter \"pth\", expected path`},
		"twice":              {"GET /v1/nodes?path=x&path=y HTTP/1.1\r\nHost: x\r\n\r\n", "given 2 times"},
		"bad escape":         {"GET /v1/nodes?path=%zz HTTP/1.1\r\nHost: x\r\n\r\n", `"invalid"`},
		"control characters": {"GET /v1/nodes?path=a%1b%5b2J HTTP/1.1\r\nHost: x\r\n\r\n", "control character"},
		"not UTF-8":          {"GET /v1/nodes?path=%ff HTTP/1.1\r\nHost: x\r\n\r\n", "UTF-8"},
		"long path":          {"GET /v1/nodes?path=" + strings.Repeat("x", 1025) + " HTTP/1.1\r\nHost: x\r\n\r\n", "1025 bytes"},
		"no path":            {"GET /v1/explain HTTP/1.1\r\nHost: x\r\n\r\n", "path is missing"},
		"negative":           {"GET /v1/counts?after=-1 HTTP/1.1\r\nHost: x\r\n\r\n", "number from 0 up"},
		"too many":           {"GET /v1/counts?after=1000001 HTTP/1.1\r\nHost: x\r\n\r\n", "at most 1000000"},
		"no number":          {"GET /v1/counts?after=18446744073709551616 HTTP/1.1\r\nHost: x\r\n\r\n", `"invalid"`},
		"no boolean":         {"GET /v1/counts?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n", "true or false"},
		"bad last event":     {"GET /v1/counts HTTP/1.1\r\nHost: x\r\nLast-Event-ID: x\r\n\r\n", "Last-Event-ID"},
		"no body":            {"POST /v1/act HTTP/1.1\r\n" + body(""), "empty"},
		"no content type":    {"POST /v1/act HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", " 415 "},
		"a form":             {"POST /v1/down HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", " 415 "},
		"null":               {"POST /v1/act HTTP/1.1\r\n" + body("null"), "path is missing"},
		"half a body":        {"POST /v1/act HTTP/1.1\r\n" + body(`{"path":"a","act`), `"invalid"`},
		"a body that stops":  {"POST /v1/act HTTP/1.1\r\n" + json + "Content-Length: 100\r\n\r\n{", `"invalid"`},
		"two bodies":         {"POST /v1/act HTTP/1.1\r\n" + body(`{"path":"a","action":"stop"}{}`), `"invalid"`},
		"unknown field":      {"POST /v1/act HTTP/1.1\r\n" + body(`{"path":"a","action":"stop","force":true}`), `unknown field`},
		"escape in body":     {"POST /v1/act HTTP/1.1\r\n" + body(`{"path":"\u001b[2J","action":"stop"}`), "control character"},
		"large body":         {"POST /v1/act HTTP/1.1\r\n" + body(`{"path":"`+strings.Repeat("x", maxBody)+`"}`), "65536 bytes"},
		"deep body":          {"POST /v1/act HTTP/1.1\r\n" + body(`{"path":`+strings.Repeat("[", 60_000)), `"invalid"`},
		"claimed body":       {"GET /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000000\r\n\r\n", "takes no body"},
		"chunked body":       {"GET /v1/status HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "takes no body"},
		"both lengths":       {"POST /v1/act HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + body("{}"), ""},
		"unknown method":     {strings.Repeat("M", 1000) + " /v1/status HTTP/1.1\r\nHost: x\r\n\r\n", " 405 "},
	} {
		t.Run(name, func(t *testing.T) {
			answer := exchange(t, s.socket, strings.Replace(tc.send, "Host: x\r\n", "Host: x\r\nConnection: close\r\n", 1), "}\n")
			if !strings.Contains(answer, tc.want) || strings.Contains(answer, " 200 ") {
				t.Errorf("%.2000s\nwant %s", answer, tc.want)
			}
		})
	}
	if err := reach(t.Context(), dial(t, s.socket)); err != nil {
		t.Error(err)
	}
}

// 100 MB without a line end cost neither memory nor patience.
func TestFlood(t *testing.T) {
	s := start(t, canned{full: true}, "", fastTimeouts())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, head := range []string{"", "GET /v1/status HTTP/1.1\r\nHost: x\r\nX: ", "POST /v1/act HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n{\"path\":\""} {
		conn, err := net.Dial("unix", s.socket)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(testTimeout))
		n, err := io.Copy(conn, io.LimitReader(io.MultiReader(strings.NewReader(head), endless{}), 100<<20))
		if err == nil {
			t.Errorf("%.10q: all %d bytes were taken", head, n)
		}
		conn.Close()
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
	if err := reach(t.Context(), dial(t, s.socket)); err != nil {
		t.Error(err)
	}
}

// A panic of the service costs one request, and never passes for an answer.
func TestPanic(t *testing.T) {
	s := start(t, canned{
		full: true,
		act:  func(context.Context) error { panic("oops") },
		events: func(_ context.Context, after uint64, yield func(counted, error) bool) {
			if after == 0 {
				yield(numbered(1), nil)
			}
			panic("oops")
		},
	}, "", fastTimeouts())
	c := dial(t, s.socket)
	if _, err := actRoute.Call(t.Context(), c, actRequest{Path: "a"}); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Error(err)
	}
	for _, after := range []uint64{0, 1} {
		var last error
		for _, err := range counts.Open(t.Context(), c, countRequest{After: after}) {
			last = err
		}
		if last == nil {
			t.Errorf("after %d: the stream is complete", after)
		}
	}
	if err := reach(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// The end of a daemon does not wait for clients that do nothing.
func TestStopWithIdleClients(t *testing.T) {
	p := fastTimeouts()
	p.drain = 100 * time.Millisecond
	s := start(t, canned{full: true, act: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, "", p)
	for _, send := range []string{"", "GET /v1/st", "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"} {
		conn, err := net.Dial("unix", s.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, send)
	}
	s.stop() // the helper fails if it takes long
}

// Messages of failures that are not JSON, or none at all, are errors all the same.
func TestFailureOfStrangers(t *testing.T) {
	for _, answer := range []string{"", "null", "<html>", `{"error":"x"}`, `{"code":"future","error":""}`, strings.Repeat("x", 2<<20)} {
		resp := &http.Response{Status: "500 Oops", StatusCode: 500, Header: http.Header{versionHeader: {Version}}, Body: io.NopCloser(bytes.NewReader([]byte(answer)))}
		if err := Dial("x").check(resp, 200); err == nil || err.Error() == "" || len(err.Error()) > 1000 {
			t.Errorf("%.20q: %v", answer, err)
		}
	}
}
