package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/landlock/landlocktest"
	"github.com/coppice-dev/coppice/internal/status"
)

// tree creates files with their name as text in a directory.
func tree(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, name+"\n")
	}
}

// unchanged checks that files have their name as text.
func unchanged(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if text, err := os.ReadFile(filepath.Join(dir, name)); string(text) != name+"\n" {
			t.Errorf("%s was changed to %q, %v", name, text, err)
		}
	}
}

// attempts is a shell script that tries to change what is protected, in a directory with the
// writable directories work and out. It writes to out/refused and out/done what was and was not.
const attempts = `
try() { if (eval "$1") >/dev/null 2>&1; then echo "$1" >> out/done; else echo "$1" >> out/refused; fi; }
outside=$PWD/outside
try 'echo x > work/go.mod'
try 'echo x >> work/.github/ci.yml'
try 'sed -i s/o/x/ work/go.mod'
try 'sh -c "sh -c \"sed -i s/o/x/ work/.github/ci.yml\""'
try 'setsid -w sh -c "echo x > work/go.mod"'
try 'setsid -w setsid -w sh -c "echo x > outside/file"'
try 'rm -f work/go.mod'
try 'rm -rf work/.github'
try 'mv work/go.mod out/'
try 'mv -f out/own work/go.mod'
try 'mv outside/file out/'
try 'ln work/go.mod out/alias'
try 'cp out/own work/new'
try 'truncate -s 0 outside/file'
try 'touch outside/new'
try 'mkdir outside/dir'
try 'ln -s file outside/link'
try 'ln -sfn "$outside/file" out/link && echo x > out/link'
try 'echo x > /proc/self/root"$outside"/file'
try 'echo x > /proc/self/cwd/outside/file'
try 'echo x >> coppice.toml'
try 'echo x > .coppice/new'
try 'touch /tmp/coppice-confinement-test'
try 'git -C work/repo config --file ../../outside/config a.b c'
try 'git init -q outside/repo'
try 'kill -9 $PPID'
try 'coppice stop keeper'
`

// allowed is the rest of that script.
const allowed = `
try 'echo x > work/src/main.go'
try 'sed -i s/x/y/ work/src/main.go'
try 'echo x > work/existing'
try 'mv out/own work/src/moved'
try 'mkdir -p out/a/b && rm -r out/a'
try 'git -C work/repo -c user.name=n -c user.email=e@x commit -q --allow-empty -m m'
try 'git -C work/repo checkout -q -b branch'
try 'cat outside/file coppice.toml'
try 'coppice agent heartbeat'
try 'coppice agent belief set k=1'
try 'coppice ps'
try 'echo x > /dev/null'
touch out/end
`

func quotedLines(script string) (lines []string) {
	for line := range strings.Lines(script) {
		if text, ok := strings.CutPrefix(line, "try '"); ok {
			lines = append(lines, strings.TrimSuffix(text, "'\n"))
		}
	}
	return lines
}

// R10: the kernel denies writes to protected paths, whatever program an agent uses.
func TestKernelDeniesWritesOfAgents(t *testing.T) {
	landlocktest.Need(t)
	t.Parallel()
	const limits = "read_write_paths = [\"work\", \"out\"]\n" +
		"read_only_paths = [\"work/go.mod\", \"work/.github\", \"-work/new\"]\n"
	hook := `on_start = '''echo x > outside/file; echo x > work/go.mod; : > out/hook'''`
	f := newFleet(t, agentTOML("prober", attempts+allowed+"exec sleep 1000", limits, hook),
		agentTOML("terminal", strings.ReplaceAll(attempts+"touch out/end\n", "out/", "out2/")+"exec sleep 1000",
			strings.ReplaceAll(limits, `"out"`, `"out2"`), "terminal = true"),
		agentTOML("keeper", "exec sleep 1000"))
	protected := []string{"work/go.mod", "work/.github/ci.yml", "outside/file"}
	tree(t, f.dir, append(protected, "work/src/main.go", "work/existing", "out/own", "out2/own")...)
	git := exec.Command("git", "init", "-q", filepath.Join(f.dir, "work/repo"))
	git.Env = append(os.Environ(), "HOME="+f.dir, "GIT_CONFIG_NOSYSTEM=1")
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before, err := os.ReadFile(filepath.Join(f.dir, "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	f.do("up", "-d")
	expected := quotedLines(attempts)
	for out, done := range map[string][]string{"out": quotedLines(allowed), "out2": nil} {
		f.awaitFile(out + "/end")
		read := func(name string) []string {
			text, _ := os.ReadFile(filepath.Join(f.dir, out, name))
			return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
		}
		want := slices.Clone(expected)
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], "out/", out+"/")
		}
		if got := read("refused"); !slices.Equal(got, want) {
			t.Errorf("%s: refused:\n%s\nexpected:\n%s", out, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got := read("done"); !slices.Equal(got, done) {
			t.Errorf("%s: done:\n%s\nexpected:\n%s", out, strings.Join(got, "\n"), strings.Join(done, "\n"))
		}
	}
	f.awaitFile("out/hook")
	unchanged(t, f.dir, protected...)
	if after, err := os.ReadFile(filepath.Join(f.dir, "coppice.toml")); string(after) != string(before) {
		t.Errorf("the configuration is %q, %v", after, err)
	}
	if _, err := os.Stat("/tmp/coppice-confinement-test"); err == nil {
		t.Error("it could write to /tmp")
	}
	n := f.node("t/prober")
	if want := []string{f.dir + "/work", f.dir + "/out"}; !slices.Equal(n.ReadWritePaths, want) {
		t.Errorf("%q, expected %q", n.ReadWritePaths, want)
	}

	// A change restarts the agent, and nothing else does. The next daemon keeps it.
	f.rewrite(agentTOML("prober", attempts+allowed+"exec sleep 1000", `read_write_paths = []`),
		agentTOML("keeper", "exec sleep 1000"))
	f.do("reload")
	f.awaitNode("t/prober", "is restarted", func(n status.Node) bool {
		return n.Incarnation == 2 && n.ReadWritePaths != nil && len(n.ReadWritePaths) == 0
	})
	if out := f.do("explain", "prober"); !strings.Contains(out, "writes to nothing") {
		t.Error(out)
	}
}

// Nothing starts without limits where the kernel has none.
func TestNothingStartsUnconfined(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", ": > started; exec sleep 1000", `read_write_paths = ["."]`))
	landlocktest.Without(t, func() {
		for _, args := range [][]string{{"validate"}, {"up", "-d"}, {"run"}} {
			out, err := f.try(args...)
			if err == nil || !strings.Contains(out, "coppice.toml:10:20: ") ||
				!strings.Contains(out, "nothing can enforce it: "+landlock.ErrUnsupported.Error()) {
				t.Errorf("%v: %v: %s", args, err, out)
			}
		}
		if out, _ := f.try("doctor"); !strings.Contains(out, "agents with read_write_paths are not started") {
			t.Errorf("doctor: %s", out)
		}
	})
	if _, err := os.Stat(filepath.Join(f.dir, "started")); err == nil {
		t.Error("the agent was started")
	}
	landlocktest.Need(t)
	if out, _ := f.try("doctor"); !strings.Contains(out, "read_write_paths holds for files") {
		t.Errorf("doctor: %s", out)
	}
}

// The example in docs/confinement.md works as shown.
func TestConfinementDoc(t *testing.T) {
	landlocktest.Need(t)
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "confinement.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	f := newFleet(t, block(t, text, "toml"), agentTOML("keeper", "exec sleep 1000"))
	tree(t, f.dir, "work/src/main.go", "work/go.mod", "work/.github/ci.yml", "out/old")
	exectest.Write(t, filepath.Join(f.dir, "coder.sh"), block(t, text, "sh"))
	f.up()
	f.awaitNode("t/coder", "has ended", func(n status.Node) bool { return n.LastExit != "" })
	unchanged(t, f.dir, "work/go.mod", "work/.github/ci.yml")
	for name, want := range map[string]string{"work/src/main.go": "package main\n", "out/report": "finished\n"} {
		if got, err := os.ReadFile(filepath.Join(f.dir, name)); string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	shown := block(t, text, "")
	if out := f.do("logs", "coder"); !strings.Contains(out, strings.TrimSpace(shown)) {
		t.Errorf("its output is\n%s\nexpected\n%s", out, shown)
	}
	line := "writes only to DIR/work, DIR/out; not to DIR/work/go.mod, DIR/work/.github"
	if out := strings.ReplaceAll(f.do("explain", "coder"), f.dir, "DIR"); !strings.Contains(out, line) ||
		!strings.Contains(text, line) {
		t.Errorf("explain: %s", out)
	}
}
