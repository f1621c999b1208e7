package web

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// shown is the text of the screen on a page.
const shown = `document.getElementById("screen").textContent`

var used = regexp.MustCompile(`<dt>Memory</dt><dd>[1-9][0-9.]*[KM]</dd></div><div><dt>Processor</dt><dd>[0-9]+%</dd>`)

// The page of an agent shows its terminal as it is, live, from one incarnation to the next.
func TestScreen(t *testing.T) {
	for _, runtime := range []string{`terminal = true`, `runtime = "tmux"`} {
		t.Run(runtime, func(t *testing.T) {
			if strings.Contains(runtime, "tmux") {
				exectest.Need(t, "tmux")
			}
			pipe, input := newPipe(t)
			f := newFleet(t, agent("coder", `printf 'gone\033[2J\033[3;5H\033[32mMenu %s\033[0m' "$COPPICE_INCARNATION"
				while read -r line; do printf '%b' "$line"; done < '`+pipe+`'`, runtime))
			s := f.web()

			// Without scripts, it is on the page.
			c, cookie := s.client(s.link)
			var body, screen string
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for began := time.Now(); !strings.Contains(screen, "Menu 1") && time.Since(began) < waitTime; <-tick.C {
				_, body = s.send(c, cookie, "GET", "/agent/shop/coder", nil, nil) // the agent may not have drawn yet
				_, screen, _ = strings.Cut(body, `<pre id="screen"`)
				screen, _, _ = strings.Cut(screen, "</pre>")
			}
			if !strings.Contains(screen, "\n\n    <span class=\"term-fg32\">Menu 1") ||
				strings.Contains(screen, "gone") || !strings.Contains(body, "coppice attach shop/coder") {
				t.Errorf("%s", body)
			}
			if !used.MatchString(body) {
				t.Errorf("the use of memory is missing: %s", body)
			}

			b := newTab(t)
			s = f.web() // its link works once
			b.signIn(s)
			b.live(s.base + "/agent/shop/coder")
			b.await(shown + `.includes("    Menu 1")`)
			fmt.Fprintln(input, `\033[3;10H\033[KAway\033[10;1H<script>alert(1)</script>\033]0;title\007`)
			b.await(shown + `.includes("Menu Away") && ` + shown + `.includes("<script>alert(1)</script>")`)
			f.coppice("restart", "coder")
			b.await(shown + `.includes("Menu 2") && !` + shown + `.includes("Away")`)
			f.killDaemon()
			f.up()
			fmt.Fprintln(input, `\033[5;1Hback`)
			b.await(shown + `.includes("Menu 2") && ` + shown + `.includes("back")`)
			b.accessible()
		})
	}
}

// An agent that draws as fast as it can holds up neither its page nor others.
func TestBusyScreen(t *testing.T) {
	f := newFleet(t, agent("busy", `while :; do printf '\033[9999b\033[H%s\033[2147483647b\033[2147483647X\n' busy; done`,
		`terminal = true`))
	s := f.web()
	c, cookie := s.client(s.link)
	_, body := s.send(c, cookie, "GET", "/agent/shop/busy", nil, nil)
	if n := strings.Count(body, "<bdi>"); n == 0 || n > 3000 { // the last 200, and what comes meanwhile
		t.Errorf("the page begins with %d lines of the log", n)
	}
	b := newTab(t)
	s = f.web() // its link works once
	b.signIn(s)
	b.live(s.base + "/agent/shop/busy")
	b.await(shown + `.includes("busy")`)
	b.live(s.base + "/tree")
	b.awaitText("running")
	f.coppice("stop", "busy")
}

// A page that is not drawn, as in a hidden tab, keeps the last change of each part only.
func TestHiddenPage(t *testing.T) {
	pipe, input := newPipe(t)
	f := newFleet(t, agent("coder", `while read -r line; do printf '\033[H%s' "$line"; done < '`+pipe+`'`,
		`terminal = true`))
	s := f.web()
	b := newTab(t)
	b.signIn(s)
	b.live(s.base + "/agent/shop/coder")
	fmt.Fprintln(input, "step 0")
	b.await(shown + `.includes("step 0")`)
	eval[bool](b, `
		window.draw = requestAnimationFrame, window.held = [], window.messages = 0, window.made = 0;
		window.requestAnimationFrame = (f) => held.push(f);
		const parse = JSON.parse, create = document.createElement;
		JSON.parse = (text) => { messages++; return parse(text); };
		document.createElement = (name) => { made += name === "template"; return create.call(document, name); };
		true`)
	for i := 1; i <= 8; i++ {
		before := eval[int](b, "messages")
		fmt.Fprintln(input, "step", i)
		for eval[int](b, "messages") == before {
		}
	}
	if text := eval[string](b, shown); !strings.Contains(text, "step 0") {
		t.Errorf("the page is drawn: %s", text)
	}
	eval[bool](b, "window.requestAnimationFrame = draw, held.forEach(draw), true")
	b.await(shown + `.includes("step 8")`)
	if made, messages := eval[int](b, "made"), eval[int](b, "messages"); made >= messages {
		t.Errorf("%d parts were made of %d messages", made, messages)
	}
}
