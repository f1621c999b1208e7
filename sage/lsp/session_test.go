package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/sagehost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitLimit bounds every wait. Only a failing test takes that long.
const waitLimit = 30 * time.Second

// session is a client and its server.
type session struct {
	*testing.T
	dir       string
	client    *jrpc2.Client
	published chan publishParams
	ended     chan error
	texts     map[string]string // of open files, by name
	version   int
}

// cursor marks a place in the files of the tests.
const cursor = "‸"

// projectOfFiles creates files named by the part before the first space or line end. It removes the
// cursors.
func projectOfFiles(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		i := strings.IndexAny(f, " \n")
		path := filepath.Join(dir, f[:i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(f[i+1:], cursor, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const grove = "grove.toml [project]\nname = \"p\"\n"

// start starts a server for files.
func start(t *testing.T, files ...string) *session {
	t.Helper()
	s := &session{T: t, dir: projectOfFiles(t, files...), published: make(chan publishParams, 10_000), ended: make(chan error, 1), texts: map[string]string{}}
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	go func() {
		err := Serve(context.Background(), fromClient, toClient, Options{Version: "test", Projects: sagehost.Projects{}, Delay: time.Millisecond})
		toClient.Close()
		s.ended <- err
	}()
	s.client = jrpc2.NewClient(channel.LSP(fromServer, toServer), &jrpc2.ClientOptions{
		OnNotify: func(r *jrpc2.Request) {
			var p publishParams
			if r.Method() == "textDocument/publishDiagnostics" && r.UnmarshalParams(&p) == nil {
				s.published <- p
			}
		},
		OnCallback: func(context.Context, *jrpc2.Request) (any, error) { return nil, nil },
	})
	t.Cleanup(func() {
		s.client.Close()
		fromServer.Close()
		select {
		case <-s.ended:
		case <-time.After(waitLimit):
			t.Error("the server does not end")
		}
	})
	s.call("initialize", map[string]any{"capabilities": map[string]any{"workspace": map[string]any{"didChangeWatchedFiles": map[string]any{"dynamicRegistration": true}}}}, nil)
	s.notify("initialized", struct{}{})
	return s
}

func (s *session) uri(name string) string { return "file://" + filepath.Join(s.dir, name) }

// name is the inverse of uri.
func (s *session) name(uri string) string { return strings.TrimPrefix(uri, s.uri("")+"/") }

func (s *session) call(method string, params, result any) {
	s.Helper()
	if err := s.try(method, params, result); err != nil {
		s.Fatalf("%s: %v", method, err)
	}
}

func (s *session) try(method string, params, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	answer, err := s.client.Call(ctx, method, params)
	if err != nil || result == nil {
		return err
	}
	return answer.UnmarshalResult(result)
}

func (s *session) notify(method string, params any) {
	s.Helper()
	if err := s.client.Notify(context.Background(), method, params); err != nil {
		s.Fatal(err)
	}
}

// open opens a file with a text and returns the position of its cursor.
func (s *session) open(name, text string) position {
	s.Helper()
	before, after, _ := strings.Cut(text, cursor)
	s.version++
	s.texts[name] = before + after
	s.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": s.uri(name), "languageId": "sage", "version": s.version, "text": before + after}})
	return position{strings.Count(before, "\n"), len(utf16.Encode([]rune(before[strings.LastIndexByte(before, '\n')+1:])))}
}

func (s *session) at(name string, p position) positionParams {
	return positionParams{documentID{s.uri(name)}, p}
}

// waitFor waits until a file has these diagnostics, formatted as line:column code.
func (s *session) waitFor(name string, want ...string) publishParams {
	s.Helper()
	after := time.After(waitLimit)
	var got []string
	for {
		select {
		case p := <-s.published:
			if p.URI != s.uri(name) {
				continue
			}
			got = nil
			for _, d := range p.Diagnostics {
				got = append(got, fmt.Sprintf("%d:%d %s", d.Range.Start.Line, d.Range.Start.Character, d.Code))
			}
			if strings.Join(got, "; ") == strings.Join(want, "; ") {
				return p
			}
		case <-after:
			s.Fatalf("the diagnostics of %s are %q, want %q", name, got, want)
		}
	}
}

// apply applies edits to a text.
func apply(text string, edits []textEdit) string {
	d := document{text: text}
	for i := len(edits) - 1; i >= 0; i-- { // from the end, so that positions stay valid
		d.apply([]contentChange{{Range: &edits[i].Range, Text: edits[i].NewText}})
	}
	return d.text
}

func asJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReader(r) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
