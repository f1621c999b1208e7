package web

import (
	"fmt"
	"strings"
	"testing"
)

// busyFleet has agents in all states that pages show in their own way, tasks, an order and a budget.
func busyFleet(t testing.TB) (f *fleet, taskID string) {
	f = newFleet(t,
		agent("api", `echo "listening on :8080"; exec sleep 1000`),
		agent("crasher", `echo starting; echo boom >&2; exit 3`, `backoff = "none"`),
		"[[supervisor]]\nname = \"backend\"\nstrategy = \"rest_for_one\"\nchildren = [\"db\", \"asker\"]\n",
		agent("db", `exec sleep 1000`),
		agent("asker", `coppice agent ask "Shall I deploy to production?" --option yes --option no; exec sleep 1000`),
		agent("done", `echo done`, `restart = "never"`),
		agent("writer", `coppice agent task claim --wait; coppice agent outcome escalated --approach "read the code" \
	--obstacle "not enough is known" --question "Who reads it?" --summary "an outline"; exec sleep 1000`),
		"[[budget]]\nname = \"by-day\"\ndollars = 5\n",
		"[[order]]\nname = \"new-year\"\nexec = \"echo swept\"\nschedule = \"0 0 1 1 *\"\n")
	id := strings.TrimSpace(f.coppice("task", "add", "Write the guide", "--assignee", "shop/writer"))
	f.coppice("task", "add", "Publish it", "--depends-on", id)
	f.coppice("order", "run", "new-year", "--wait")
	return f, id
}

// Every page is made, keeps to its Content-Security-Policy, and is accessible in both schemes.
func TestPages(t *testing.T) {
	f, id := busyFleet(t)
	s := f.web()
	b := newTab(t)
	b.size(1280, 800)
	b.signIn(s)
	for _, page := range []struct{ path, expect string }{
		{"/", "Needs input"},
		{"/tree", "shop"},
		{"/tree?q=crasher&sort=state&desc=1", "crasher"},
		{"/agent/shop/crasher", "quarantined"},
		{"/agent/shop/api", "listening on :8080"},
		{"/agent/shop/backend", "rest for one"},
		{"/events", "agent.started"},
		{"/events?failures=1", "agent.crashed"},
		{"/events/1", "controller.started"},
		{"/inbox", "Shall I deploy to production?"},
		{"/tasks", "Write the guide"},
		{"/tasks?view=board", "Write the guide"},
		{"/tasks?view=graph", "shop-"},
		{"/tasks/" + id, "not enough is known"},
		{"/work", "new-year"},
		{"/orders/new-year", "swept"},
		{"/cost", "by-day"},
		{"/cost?by=model&since=24h", "All"},
		{"/config?q=rest", "rest_for_one"},
		{"/system?check=1", "landlock"},
		{"/confirm?action=stop&path=shop/backend", "shop/backend/db"},
	} {
		t.Run(page.path, func(t *testing.T) {
			b.t = t
			b.open(s.base + page.path)
			b.await(fmt.Sprintf("document.body.innerText.includes(%q)", page.expect))
			for _, dark := range []bool{false, true} {
				b.dark(dark)
				b.accessible()
			}
		})
	}
	b.t = t
}

// The pages that people open on a phone fit its screen.
func TestPhone(t *testing.T) {
	f, _ := busyFleet(t)
	s := f.web()
	b := newTab(t)
	b.size(375, 667)
	b.signIn(s)
	for _, path := range []string{"/", "/agent/shop/crasher", "/agent/shop/api", "/inbox"} {
		b.live(s.base + path)
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 375 {
			t.Errorf("%s is %d px wide", path, wide)
		}
		b.accessible()
	}
}
