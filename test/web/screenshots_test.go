package web

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"
)

var screenshots = flag.String("screenshots", "", "keep the pictures of pages in this directory")

// The pictures of the documentation show a fleet as it is.
func TestScreenshots(t *testing.T) {
	dir := *screenshots
	if dir == "" {
		dir = t.TempDir()
	}
	f := demoFleet(t)
	s := f.web()
	b := newTab(t)
	b.size(1280, 800)
	b.signIn(s)
	for _, picture := range []struct {
		name, path, expect string
		dark               bool
	}{
		{"overview", "/", "Needs input", false},
		{"tree", "/tree", "reviewer-3", false},
		{"agent", "/agent/shop/crawler", "quarantined", true},
		{"inbox", "/inbox", "Shall I", false},
	} {
		b.dark(picture.dark)
		b.live(s.base + picture.path)
		b.await(fmt.Sprintf("document.body.innerText.includes(%q)", picture.expect))
		b.screenshot(filepath.Join(dir, picture.name+".png"), false)
	}
	b.size(375, 667)
	b.dark(true)
	b.live(s.base + "/")
	b.screenshot(filepath.Join(dir, "phone.png"), false)
}

// demoFleet has agents such as people have.
func demoFleet(t testing.TB) *fleet {
	worker := `printf '\033[2m%s\033[0m reading the diff of #%s\n' "$(date +%T)" "$1"; printf '\033[32mok\033[0m 214 tests pass\n'`
	var reviewers []string
	for i := range 4 {
		reviewers = append(reviewers, agent(fmt.Sprintf("reviewer-%d", i+1), worker+"\nexec sleep 1000"))
	}
	toml := append(reviewers,
		"[[supervisor]]\nname = \"backend\"\nstrategy = \"rest_for_one\"\nchildren = [\"db\", \"api\", \"deployer\"]\n",
		agent("db", `echo "database system is ready to accept connections"; exec sleep 1000`),
		agent("api", `printf '\033[36mINFO\033[0m listening on :8080\n'; exec sleep 1000`),
		agent("deployer", `echo "build 412 is green"; coppice agent ask "Shall I deploy build 412 to production?" --option yes --option no; exec sleep 1000`),
		agent("crawler", `echo "GET https://example.com/sitemap.xml"; printf '\033[31merror\033[0m 503 Service Unavailable\n' >&2; exit 3`, `backoff = "none"`),
		agent("migrate", `echo "schema is at version 31"`, `restart = "never"`))
	return newFleet(t, toml...)
}
