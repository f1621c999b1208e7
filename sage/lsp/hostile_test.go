package lsp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/sagehost"
	"github.com/coppice-dev/coppice/sage/load"
	"github.com/coppice-dev/coppice/sage/source"
)

// converse sends bytes to a server and returns its messages until it ends.
func converse(t *testing.T, input string) ([]map[string]any, error) {
	t.Helper()
	var out bytes.Buffer
	err := Serve(context.Background(), io.NopCloser(strings.NewReader(input)), &out, Options{Projects: sagehost.Projects{}, Delay: time.Nanosecond})
	answers := &stream{r: newReader(&out)}
	var all []map[string]any
	for {
		message, e := answers.Recv()
		if e != nil {
			return all, err
		}
		var m map[string]any
		if e := json.Unmarshal(message, &m); e != nil || m["jsonrpc"] != "2.0" {
			t.Fatalf("not a message: %q", message)
		}
		all = append(all, m)
	}
}

func framed(messages ...string) string {
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(m), m)
	}
	return b.String()
}

const (
	hello  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}`
	lastly = `{"jsonrpc":"2.0","id":"last","method":"textDocument/hover","params":{"textDocument":{"uri":"file:///x.sg"},"position":{"line":0,"character":0}}}`
)

func opened(text string) string {
	quoted, _ := json.Marshal(text)
	return `{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"untitled:a.sg","version":1,"text":` + string(quoted) + `}}}`
}

// TestHostileMessages checks that the server answers the next message after any input.
func TestHostileMessages(t *testing.T) {
	tests := map[string]string{
		"no JSON":             framed("{"),
		"no object":           framed("1"),
		"empty":               framed(""),
		"null":                framed("null"),
		"empty batch":         framed("[]"),
		"batch of nonsense":   framed("[1,{},null,[[]]]"),
		"no method":           framed(`{"jsonrpc":"2.0","id":7}`),
		"other version":       framed(`{"jsonrpc":"1.0","id":7,"method":"shutdown"}`),
		"strange id":          framed(`{"jsonrpc":"2.0","id":{},"method":"shutdown"}`),
		"unknown":             framed(`{"jsonrpc":"2.0","id":7,"method":"none"}`, `{"jsonrpc":"2.0","method":"none"}`, `{"jsonrpc":"2.0","method":"$/none"}`, `{"jsonrpc":"2.0","id":8,"method":"$/none"}`),
		"an answer":           framed(`{"jsonrpc":"2.0","id":99,"result":1}`, `{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":""}}`),
		"wrong parameters":    framed(`{"jsonrpc":"2.0","id":7,"method":"textDocument/hover","params":[1]}`, `{"jsonrpc":"2.0","id":8,"method":"textDocument/hover","params":{"position":"x"}}`, `{"jsonrpc":"2.0","id":9,"method":"textDocument/rename"}`),
		"huge numbers":        framed(`{"jsonrpc":"2.0","id":7,"method":"textDocument/hover","params":{"textDocument":{"uri":"untitled:a.sg"},"position":{"line":1e99,"character":-1}}}`),
		"cancel":              framed(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":5}}`, `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"x"}}`, `{"jsonrpc":"2.0","method":"$/cancelRequest"}`),
		"exit as a request":   framed(`{"jsonrpc":"2.0","id":7,"method":"exit"}`),
		"the same id":         framed(`{"jsonrpc":"2.0","id":7,"method":"none"}`, `{"jsonrpc":"2.0","id":7,"method":"none"}`),
		"no length":           "X: y\r\n\r\n",
		"wrong length":        "Content-Length: x\r\n\r\n",
		"negative length":     "Content-Length: -5\r\n\r\n",
		"long header":         "X: " + strings.Repeat("y", 1<<20) + "\r\n" + framed("{}"),
		"no header":           "\r\n\n\n",
		"too large":           fmt.Sprintf("Content-Length: %d\r\n\r\n%s", maxMessage+1, strings.Repeat(" ", maxMessage+1)),
		"strange names":       framed(strings.ReplaceAll(opened("run A;"), "untitled:a.sg", `file:///a\u0000b`), strings.ReplaceAll(opened("run A;"), "untitled:a.sg", "%"), strings.ReplaceAll(opened("run A;"), "untitled:a.sg", ""), strings.ReplaceAll(opened("mod a;"), "untitled:a.sg", "file:relative.sg"), strings.ReplaceAll(opened("mod a;"), "untitled:a.sg", "file:///")),
		"not open":            framed(`{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"x"},"contentChanges":[{"text":""}]}}`, `{"jsonrpc":"2.0","method":"textDocument/didClose","params":{"textDocument":{"uri":"x"}}}`),
		"large document":      framed(opened(strings.Repeat("fn f() {}\n", load.MaxSize/10+10))),
		"a very long line":    framed(opened(strings.Repeat("a + ", 100_000))),
		"deep":                framed(opened(strings.Repeat("(", 100_000))),
		"half of a character": framed(strings.ReplaceAll(opened("const A = 'xy';"), "xy", `\ud83c`)),
	}
	for name, input := range tests {
		t.Run(name, func(t *testing.T) {
			answers, err := converse(t, framed(hello)+input+framed(lastly))
			if err == nil || len(answers) == 0 {
				t.Fatalf("%v, %v", answers, err)
			}
			found := false
			for _, a := range answers {
				_, failed := a["error"]
				found = found || a["id"] == "last" && !failed
			}
			if !found {
				t.Errorf("no answer after it: %v", answers)
			}
		})
	}
}

// TestPanic checks that a panic of the checker or the parser does not end the server.
func TestPanic(t *testing.T) {
	s := &server{log: discard()}
	err := s.guard("here", func() error { panic("there") })
	if err == nil || !strings.Contains(err.Error(), "internal error in here: there") {
		t.Errorf("got %v", err)
	}
}

func FuzzMessages(f *testing.F) {
	for _, method := range []string{"hover", "completion", "definition", "references", "prepareRename", "rename", "formatting", "documentSymbol"} {
		f.Add(mainText, `{"jsonrpc":"2.0","id":2,"method":"textDocument/`+method+`","params":{"textDocument":{"uri":"untitled:a.sg"},"position":{"line":20,"character":12},"newName":"x"}}`)
	}
	f.Add("agent A { on start { self. } }", `{"jsonrpc":"2.0","id":2,"method":"textDocument/completion","params":{"textDocument":{"uri":"untitled:a.sg"},"position":{"line":0,"character":26}}}`)
	f.Add("fn f() {}", `{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"untitled:a.sg"},"contentChanges":[{"range":{"start":{"line":9,"character":-1},"end":{"line":0,"character":3}},"text":"\ud83c"}]}}`)
	f.Add("", "[{},1]")
	f.Fuzz(func(t *testing.T, text, message string) {
		if strings.Contains(message, "file:") || strings.Contains(message, `\u`) {
			return // it could name files on this machine
		}
		answers, _ := converse(t, framed(hello, opened(text), message, message, lastly))
		for _, a := range answers {
			if strings.Contains(fmt.Sprint(a["error"]), "internal error") {
				t.Fatalf("%v", a)
			}
		}
	})
}

// FuzzRequests sends all requests at all places of an incomplete program.
func FuzzRequests(f *testing.F) {
	f.Add(mainText, "Row", uint16(300))
	f.Add(dbText, "x", uint16(20))
	f.Add("supervisor S { children { A { res", "Permanent", uint16(33))
	f.Fuzz(func(t *testing.T, text, name string, at uint16) {
		s := &server{log: discard(), documents: map[string]*document{}, projects: map[string]*project{}, published: map[string]bool{}, changed: make(chan struct{}, 1)}
		open := &didOpenParams{}
		open.TextDocument.URI, open.TextDocument.Text = "untitled:a.sg", text
		s.didOpen(open)
		p := positionParams{documentID{"untitled:a.sg"}, positionAt(source.NewFile("", text), int(at))}
		_, _ = s.hover(&p)
		_, _ = s.definition(&p)
		_, _ = s.references(&referenceParams{positionParams: p})
		_, _ = s.complete(&p)
		_, _ = s.prepareRename(&p)
		_, _ = s.symbols(&documentParams{p.TextDocument})
		edits, err := s.format(&documentParams{p.TextDocument})
		formatted := apply(text, edits)
		if err == nil {
			if again, _ := s.format(&documentParams{p.TextDocument}); asJSON(again) != asJSON(edits) {
				t.Errorf("%s, then %s", asJSON(edits), asJSON(again))
			}
			s.documents["untitled:a.sg"].text = formatted
			if again, err := s.format(&documentParams{p.TextDocument}); err != nil || len(again) > 0 {
				t.Errorf("%q: %v, %v", formatted, asJSON(again), err)
			}
			s.documents["untitled:a.sg"].text = text
		}
		before := s.collect(s.view())["untitled:a.sg"]
		edit, err := s.rename(&renameParams{p, name})
		if err != nil {
			return
		}
		// A rename must not add errors.
		s.documents["untitled:a.sg"].text = apply(text, edit.Changes["untitled:a.sg"])
		s.edition++
		if after := s.collect(s.view())["untitled:a.sg"]; len(after) > len(before) {
			t.Errorf("%q: %s", s.documents["untitled:a.sg"].text, asJSON(after))
		}
	})
}
