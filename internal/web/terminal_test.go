package web

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
)

// Terminals that nobody looks at give way to others after a while; until then there is an upper limit.
func TestManyTerminals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newTerminals(ctx, api.Dial(t.TempDir()+"/no-daemon"))
		defer s.close()
		defer cancel()
		var release func()
		for i := range maxTerminals {
			_, release = s.watch(fmt.Sprint(i))
		}
		if other, _ := s.watch("other"); other != nil {
			t.Error("one more is watched")
		}
		_, again := s.watch("0")
		again()
		release()
		release() // which counts once
		time.Sleep(lingerTime / 2)
		if other, _ := s.watch("other"); other != nil {
			t.Error("what somebody has just looked at gives way")
		}
		time.Sleep(lingerTime)
		if other, _ := s.watch("other"); other == nil {
			t.Error("what nobody looks at does not give way")
		}
		if other, _ := s.watch("another"); other != nil {
			t.Error("what somebody looks at gives way")
		}
	})
}

// The screen is that of the last connection, has the size that it tells, and is text.
func TestTerminal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	term := &terminal{path: "a", ctx: ctx, cancel: cancel, changed: make(chan struct{}), fresh: true}
	if html, _ := term.html(); html != emptyScreen {
		t.Error(html)
	}
	expect := func(rows int, parts ...string) {
		t.Helper()
		html, _ := term.html()
		if n := strings.Count(string(html), "\n"); n != rows {
			t.Errorf("%d rows, want %d: %s", n, rows, html)
		}
		for _, part := range parts {
			if !strings.Contains(string(html), part) {
				t.Errorf("no %q: %s", part, html)
			}
		}
	}
	fmt.Fprint(term, "from an older shim") // which tells no size
	expect(24, "from an older shim")
	term.resize(3, 40)
	_, changed := term.html()
	fmt.Fprint(term, "\x1b[31m<b>&\x1b[0m\u202e\r\n2\r\n3\r\n4")
	select {
	case <-changed:
	default:
		t.Error("a change is not told")
	}
	expect(3, "2\n3\n4\n")
	fmt.Fprint(term, "\x1b[H\x1b[31m<b>&")
	expect(3, `<span class="term-fg31">&lt;b&gt;&amp;</span>`)
}
