package web

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
)

// Who does something on a page that shows what needs people is not notified meanwhile; who may only look, or looks at
// something else, is.
func TestPresence(t *testing.T) {
	f := newFleet(t, agent("api", `exec sleep 1000`),
		"[[notify]]\nname = \"n\"\nvia = \"command\"\ncommand = [\"cat\"]\n")
	held := func() bool { return strings.Contains(f.coppice("notify", "ls"), "somebody looks") }
	move := func(b *tab) {
		call(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: "mouseMoved", X: 50, Y: 50})
		// What the page sends then is sent before this.
		eval[int](b, `fetch("/tree").then(r => r.text()).then(t => t.length)`)
	}

	reader := f.web("--read-only")
	looking := newTab(t)
	looking.signIn(reader)
	move(looking)

	s := f.web()
	b := newTab(t)
	b.signIn(s)
	b.live(s.base + "/tree")
	move(b)
	b.live(s.base + "/inbox")
	if eval[bool](b, `document.body.dispatchEvent(new KeyboardEvent("keydown", {bubbles: true}))`); held() {
		t.Error("notifications are held though nobody has done anything where needs are shown")
	}
	move(b)
	b.await(`performance.getEntriesByName(location.origin + "/seen").length > 0`)
	if !held() {
		t.Error("notifications are not held: " + f.coppice("notify", "ls"))
	}
}
