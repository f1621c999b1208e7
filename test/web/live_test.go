package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// A page shows what happens without being loaded again, also after its daemon was killed.
func TestLive(t *testing.T) {
	pipe, input := newPipe(t)
	f := newFleet(t,
		agent("api", `echo first; while read -r line; do echo "$line"; done < '`+pipe+`'`),
		agent("worker", `exec sleep 1000`))
	s := f.web()
	b := newTab(t)
	b.signIn(s)

	b.live(s.base + "/tree")
	eval[bool](b, "window.loaded = true")
	f.coppice("stop", "worker")
	b.await(`document.getElementById("n-shop%2Fworker").innerText.includes("stopped")`)
	f.killDaemon()
	b.await(`!document.getElementById("down").hidden`)
	f.up()
	f.coppice("start", "worker")
	b.await(`document.getElementById("n-shop%2Fworker").innerText.includes("running")`)
	b.await(`document.getElementById("down").hidden`)
	if !eval[bool](b, "window.loaded") {
		t.Error("the page was loaded again")
	}

	b.live(s.base + "/agent/shop/api")
	b.await(`document.getElementById("log").textContent.includes("first")`)
	fmt.Fprintln(input, "second")
	b.await(`document.getElementById("log").textContent.includes("second")`)
	if n := strings.Count(eval[string](b, `document.getElementById("log").textContent`), "first"); n != 1 {
		t.Errorf("the first line is there %d times: %s", n, eval[string](b, `document.getElementById("log").textContent`))
	}
	f.coppice("restart", "worker")
	b.live(s.base + "/events")
	f.coppice("restart", "api")
	b.await(`[...document.getElementById("events").children].some(e => e.textContent.includes("shop/api#2"))`)
}

// A stream that was cut goes on where it was: no event is missing, and none is there twice.
func TestReconnect(t *testing.T) {
	f := newFleet(t, agent("api", `exec sleep 1000`))
	s := f.web()
	b := newTab(t)
	p := newProxy(t, "127.0.0.1:"+s.port)
	s.base, s.link = p.url(s.base), p.url(s.link)
	b.signIn(s)
	b.live(s.base + "/events")
	for range 5 {
		p.cut()
		f.coppice("restart", "api")
	}
	f.coppice("stop", "api")
	b.await(`[...document.getElementById("events").children].some(e => e.textContent.includes("agent.stopped shop/api#6"))`)
	numbers := eval[[]int](b, `[...document.querySelectorAll("#events li > a:first-child")].map(a => +a.innerText)`)
	for i, n := range numbers {
		if n != len(numbers)-i {
			t.Fatalf("events %v", numbers)
		}
	}
}

// Without scripts, all of it works; it is just not live.
func TestWithoutScripts(t *testing.T) {
	f := newFleet(t,
		agent("api", `exec sleep 1000`),
		agent("asker", `echo "asked about it"; coppice agent ask "Shall I?" --option yes --option no; exec sleep 1000`),
		agent("writer", `coppice agent ask "Which name?"; exec sleep 1000`))
	s := f.web()
	b := newTab(t)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.signIn(s)
	click := func(selector string) {
		t.Helper()
		perform(b, chromedp.Click(chromedp.CSS(selector)))
	}
	b.open(s.base + "/tree")
	click(`input[value="shop/api"]`)
	click(`button[value="stop"]`)
	b.awaitText("Stop 1 agent?")
	click("button.primary")
	b.awaitText("stopped: 1 node")
	if out := f.coppice("ps"); !strings.Contains(out, "stopped") {
		t.Error(out)
	}
	b.open(s.base + "/inbox")
	click(`button[value="yes"]`)
	b.awaitText("is answered: yes")
	perform(b, chromedp.SendKeys(chromedp.CSS("textarea"), "Ada <b>"))
	click(`form[action="/do/answer"] button.primary`)
	b.awaitText("is answered: Ada <b>")
	click(`form[action="/logout"] button`)
	b.awaitText("You are signed out")
	b.open(s.base + "/tree")
	b.awaitText("You are not signed in")
}

// What agents write is text, whatever it is.
func TestHostileOutput(t *testing.T) {
	f := newFleet(t, agent("hostile", strings.Join([]string{
		`printf '<script>document.title="owned"</script><img src=x onerror="document.title=1">\n'`,
		`printf '\033[31mred\033[0m \033]8;;javascript:alert(1)\007link\033]8;;\007 \033]1337;File=name=YS5wbmc=;inline=1:aGk=\007\n'`,
		`printf '\033_bk;t=1\007 \033[2J\033[999999999C\033[99999999B far\n'`,
		`printf 'abc \342\200\256 gnorw \330\247\331\204\n'`,
		`printf 'not UTF-8: \377\376\000\n'`,
		`printf '</bdi></p></div></main><form action=//evil.example><button>x</button>\n'`,
		`head -c 20000000 /dev/zero | tr '\0' x; echo`,
		`echo "the end"`,
		`coppice agent ask '<script>document.title="owned"</script>' --option '"><script>1</script>' --option no`,
		`exec sleep 1000`}, "\n")))
	s := f.web()
	b := newTab(t)
	b.signIn(s)
	b.live(s.base + "/agent/shop/hostile")
	b.await(`document.getElementById("log").textContent.includes("the end")`)
	if title := eval[string](b, "document.title"); title != "shop/hostile · Coppice" {
		t.Error(title)
	}
	text := eval[string](b, `document.getElementById("log").textContent`)
	for _, want := range []string{`<script>document.title="owned"</script><img`, "red link", "far", "not UTF-8: ",
		"</bdi></p></div></main><form"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %.3000s", want, text)
		}
	}
	if strings.ContainsRune(text, 0x202e) || len(text) > 1_500_000 {
		t.Errorf("%d characters", len(text))
	}
	if n := eval[int](b, `document.querySelectorAll("#log img, #log a, #log script, #log form").length`); n > 0 {
		t.Errorf("%d elements of the agent", n)
	}
	if red := eval[int](b, `document.querySelectorAll("#log .term-fg31").length`); red != 1 {
		t.Errorf("%d red texts", red)
	}
	b.live(s.base + "/inbox")
	if title := eval[string](b, "document.title"); title != "Inbox · Coppice" {
		t.Error(title)
	}
	b.accessible()
}
