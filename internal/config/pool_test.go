package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestPool(t *testing.T) {
	tree, err := Parse("/home/shop/coppice.toml", []byte(`
[[supervisor]]
name = "crew"
children = ["worker", "clerk"]

[[agent]]
name = "worker"
command = "work"

[agent.pool]
min = 1
max = -1
check = "ls queue | wc -l"
check_timeout = "3s"
drain_timeout = "10m"
on_boot = "./release.sh all"
on_death = { command = ["./release.sh", "one"], timeout = "5s" }

[[agent]]
name = "clerk"
command = "file"
max_restarts = 2
pool = { namepool = ["ada", "bob"] }

[[agent]]
name = "plain"
command = "sleep 1"
pool = {}
`))
	if err != nil {
		t.Fatal(err)
	}
	pools := tree.Pools()
	got := map[string]spec.Pool{}
	for path, n := range pools {
		if n.Template.Dir != "/home/shop" || len(n.Children) > 0 || n.Template.Instance != (spec.Instance{}) {
			t.Errorf("%s is %+v", path, n)
		}
		got[path] = *n.Template.Pool
	}
	want := map[string]spec.Pool{
		"shop/crew/worker": {
			Min: 1, Max: spec.UnlimitedPool, Check: []string{"/bin/sh", "-c", "ls queue | wc -l"}, CheckTimeout: 3 * time.Second, DrainTimeout: 10 * time.Minute,
			OnBoot:  spec.Hook{Command: []string{"./release.sh", "all"}, Timeout: spec.DefaultHookTimeout},
			OnDeath: spec.Hook{Command: []string{"./release.sh", "one"}, Timeout: 5 * time.Second},
		},
		"shop/crew/clerk": {Max: 2, CheckTimeout: 30 * time.Second, DrainTimeout: 5 * time.Minute, Names: []string{"ada", "bob"}},
		"shop/plain":      {Max: 1, CheckTimeout: 30 * time.Second, DrainTimeout: 5 * time.Minute},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for path, want := range map[string]supervisor.Limit{
		"shop/plain": supervisor.Quarantining(20, time.Hour), "shop/crew/clerk": supervisor.Quarantining(2, time.Hour),
	} {
		if got := pools[path].Template.Limit; got != want {
			t.Errorf("the limit of instances of %s is %v, want %v", path, got, want)
		}
	}
}

// TestPoolKept checks that instances have the limit of [daemon] in any supervisor.
func TestPoolKept(t *testing.T) {
	for _, in := range []string{"", "[[supervisor]]\nname = \"s\"\nchildren = [\"a\"]\n"} {
		tree, err := Parse("/x/coppice.toml", []byte(base+"pool = {}\n"+in+"[daemon]\nmax_restarts = 3\n[supervision]\nmax_restarts = 9\n"))
		if err != nil {
			t.Fatal(err)
		}
		for path, n := range tree.Pools() {
			if n.Template.Limit != supervisor.Quarantining(3, time.Hour) {
				t.Errorf("the limit of instances of %s is %v", path, n.Template.Limit)
			}
		}
	}
}

// TestPoolDefaultMax checks that the default of max depends on the other keys.
func TestPoolDefaultMax(t *testing.T) {
	for text, want := range map[string]int{
		"": 1, "min = 4": 4, "min = 0": 1, `namepool = ["b", "c", "d"]`: 3, `min = 1, namepool = ["b", "c", "d"]`: 3,
		"max = 0": 0, `max = "unlimited"`: spec.UnlimitedPool, "max = 1000": 1000,
	} {
		tree, err := Parse("/x/coppice.toml", []byte(base+"pool = { "+text+" }\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := tree.Pools()["x/a"].Template.Pool.Max; got != want {
			t.Errorf("%s: max is %d, want %d", text, got, want)
		}
	}
}

// TestNamepoolFile checks that Load reads the names, and that errors point to namepool.
func TestNamepoolFile(t *testing.T) {
	long := strings.Repeat("x", maxNames+1)
	for _, tt := range []struct{ name, content, want, wantErr string }{
		{"names", "\ufeff# the crew\nada\r\n\n  bob \n#eve\nzoë", "ada bob zoë", ""},
		{"empty", "# no names\n", "", "namepool is empty, expected at least one name"},
		{"twice", "ada\nada\n", "", `the name "ada" is there twice, expected once; remove one of the two`},
		{"bad name", "ada\na/b\n", "", `the name "a/b" contains "/", expected one segment of a path`},
		{"not text", "ada\xff\n", "", `namepool "names" cannot be used: it is not UTF-8; write one name in each line of it, or a list of names here`},
		{"too large", long, "", `namepool "names" cannot be used: it has 128001 bytes, expected at most 128000; write one name in each line of it, or a list of names here`},
		{"missing", "", "", `namepool "names" cannot be used: no such file or directory; write one name in each line of it, or a list of names here`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, FileName)
			if err := os.WriteFile(file, []byte(base+"pool.namepool = \"names\"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if tt.content != "" {
				if err := os.WriteFile(filepath.Join(dir, "names"), []byte(tt.content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			tree, err := Load(file)
			if tt.wantErr != "" {
				if want := file + ":4:17: " + tt.wantErr; err == nil || err.Error() != want {
					t.Fatalf("got error %v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range tree.Pools() {
				if got := strings.Join(n.Template.Pool.Names, " "); got != tt.want || n.Template.Pool.Max != len(n.Template.Pool.Names) {
					t.Errorf("got %q, max %d, want %q", got, n.Template.Pool.Max, tt.want)
				}
			}
		})
	}
}
