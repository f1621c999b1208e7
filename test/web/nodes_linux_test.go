package web

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/coppice-dev/coppice/internal/store/etcd/etcdtest"
)

// The first page lists the nodes of a fleet, and shows live what becomes of them.
func TestNodes(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	var first, second *fleet
	for i, f := range []**fleet{&first, &second} {
		*f = &fleet{t, t.TempDir()}
		text := "[project]\nname = \"shop\"\n\n" + agent("api", `exec sleep 1000`)
		if err := os.WriteFile(filepath.Join((*f).dir, "coppice.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at := fmt.Sprintf("127.%d.%d.%d:%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254), 10000+rand.IntN(20000))
		(*f).coppice("cluster", "init", "--store", c.URL("shop"), "--name", fmt.Sprintf("node-%d", i+1), "--listen", at,
			"--advertise", at, "--label", "zone=eu")
		t.Cleanup(func() { (*f).coppice("down") })
		(*f).up()
	}
	s := first.web()
	b := newTab(t)
	b.signIn(s)
	b.live(s.base + "/")
	rows := `[...document.querySelectorAll("#nodes tbody tr")].map(r => r.innerText.replace(/\s+/g, " ").trim()).join()`
	b.await(rows + ` == "node-1 ready controller 1 zone=eu,node-2 ready 0 zone=eu"`)
	b.accessible()
	eval[bool](b, "window.loaded = true")
	first.coppice("node", "drain", "node-2")
	b.await(rows + `.includes("node-2 draining")`)
	second.coppice("down", "--local")
	b.await(rows + `.includes("node-2 lost")`)
	if !eval[bool](b, "window.loaded") {
		t.Error("the page was loaded again")
	}

	one := newFleet(t, agent("api", `exec sleep 1000`)).web()
	b.signIn(one)
	b.live(one.base + "/")
	if eval[bool](b, `!!document.getElementById("nodes")`) {
		t.Error("one machine has nodes")
	}
}
