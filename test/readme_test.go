package test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/supervisor"
)

// The examples in the README work.

// root is the directory of the module.
const root = ".."

// readmeBlock returns the block of code in the README that contains a text.
func readmeBlock(t *testing.T, language, contains string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		if block[1] == language && strings.Contains(block[2], contains) {
			return block[2]
		}
	}
	t.Fatalf("no block of %s with %q in the README", language, contains)
	return ""
}

func TestReadmeFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sample := readmeBlock(t, "toml", "[[agent]]")
	write(t, filepath.Join(dir, "coppice.toml"), sample)
	r := launch(t, dir, "validate")
	r.wantExit(0)
	if got, want := r.out.String(), "coppice.toml is valid: 2 agents, 1 supervisor\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}

	// It runs unchanged, and api waits for db.
	r = launch(t, dir, "run")
	r.out.awaitText(t, "/backend/api | serving\n")
	before, _, _ := strings.Cut(r.out.String(), "/backend/api ") // its output may come before the event of its start
	if !strings.Contains(before, "/backend/db | listening\n") {
		t.Errorf("api does not wait for db:\n%s", r.out)
	}
	r.signal(syscall.SIGINT)
	r.wantExit(exitSignalled + int(syscall.SIGINT))

	// The error in the README appears at the place it names.
	want := readmeBlock(t, "", "did you mean")
	write(t, filepath.Join(dir, "coppice.toml"), "# One\n[project]\nname = \"shop\"\n\n[[agent]]\nname = \"db\"\ncomand = \"./db.sh\"\n")
	r = launch(t, dir, "validate")
	r.wantExit(78)
	if !slices.Contains(r.err.lines(), strings.TrimSuffix(want, "\n")) {
		t.Errorf("%s, want %s", r.err, want)
	}
}

func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	claim := regexp.MustCompile("(?m)^It prints `([^`]+)`").FindSubmatch(text)
	if claim == nil {
		t.Fatal("the README does not say what the program prints")
	}
	program := filepath.Join(t.TempDir(), "main.go")
	write(t, program, readmeBlock(t, "go", "supervisor.Start"))
	cmd := exec.Command("go", "run", program)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if got, want := string(out), string(claim[1])+"\n"; got != want || err != nil {
		t.Errorf("it prints %q (%v), want %q", got, err, want)
	}
}

// The Sage program of the README prints what the README says.
func TestReadmeSage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "watch.sg"), readmeBlock(t, "sage", "agent Watcher"))
	r := launch(t, dir, "run", "watch.sg")
	r.wantExit(exitOK)
	if got, want := r.out.String(), readmeBlock(t, "", "awake again"); got != want {
		t.Errorf("it prints\n%s, want\n%s", got, want)
	}
	if got := r.err.String(); strings.Count(got, "restarted, incarnation") != 2 || !strings.Contains(got, "no answer; restart: it restarts on failure") {
		t.Errorf("it tells\n%s", got)
	}
}

// The README's first fleet, from the installation to Ctrl-C.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	install := strings.Split(strings.TrimSpace(readmeBlock(t, "sh", "make install")), "\n")
	fleet := readmeBlock(t, "sh", "coppice init")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	caches, err := exec.Command("go", "env", "GOCACHE", "GOPATH").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, path, _ := strings.Cut(strings.TrimSpace(string(caches)), "\n")
	local := filepath.Join(dir, ".local")
	bin := filepath.Join(local, "bin")
	gobin := filepath.Join(dir, "gobin")
	for _, line := range install {
		build := exec.Command("/bin/sh", "-ec", line)
		build.Dir = root
		build.Env = append(os.Environ(), "HOME="+dir, "GOCACHE="+cache, "GOPATH="+path, "GOBIN="+gobin)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	if out, err := exec.Command(filepath.Join(gobin, "coppice"), "version").CombinedOutput(); err != nil {
		t.Errorf("go install: %v\n%s", err, out)
	}
	for _, file := range []string{"share/man/man1/coppice-run.1", "share/bash-completion/completions/coppice"} {
		if _, err := os.Stat(filepath.Join(local, file)); err != nil {
			t.Error(err)
		}
	}
	r := newChildCommand(t, "/bin/sh", "-ec", fleet)
	r.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as the shell of a terminal does
	r.start(dir)
	r.out.awaitText(t, "garden/pipeline/worker | working for you\n")
	r.out.awaitText(t, "garden * started\n")
	r.out.awaitText(t, "garden/hello * ended after ")
	exectest.Signal(t, -r.Process.Pid, syscall.SIGINT)
	r.exit()
	r.err.awaitText(t, "coppice: stopped by SIGINT\n")
	for _, want := range []string{
		"wrote coppice.toml; run it with: coppice run\n",
		"coppice.toml is valid: 3 agents, 1 supervisor\n",
		"garden/hello | hello\n",
		"garden/pipeline/source * stopped\n",
	} {
		if !strings.Contains(r.out.String(), want) {
			t.Errorf("no %q in:\n%s", want, r.out)
		}
	}
	for _, p := range processesIn(t, dir) {
		p.awaitEnd(t)
	}
}

// Each everyday command of the README works.
func TestReadmeDaemon(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "garden")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	says := map[string]string{
		"up -d": "garden is up: ", "ps": "garden/pipeline/source", "explain garden/hello": "it never restarts",
		"logs hello": "hello", "down": "garden is down",
	}
	lines := append([]string{"coppice init"}, strings.Split(strings.TrimSpace(readmeBlock(t, "sh", "coppice up -d")), "\n")...)
	for _, line := range lines {
		if strings.HasPrefix(line, "coppice explain") {
			r := newCoppice(t, "events", "-f")
			r.start(dir)
			r.out.awaitText(t, "garden/hello#1 ended")
			r.signal(syscall.SIGINT)
		}
		cmd := exec.Command("/bin/sh", "-ec", line)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", line, err, out)
		}
		line, _, _ = strings.Cut(line, "#")
		if want := says[strings.TrimSpace(strings.TrimPrefix(line, "coppice"))]; !strings.Contains(string(out), want) {
			t.Errorf("%s says nothing of %q: %s", line, want, out)
		}
	}
}

// maskDurations replaces durations, which vary.
func maskDurations(text string) string {
	text = regexp.MustCompile(`(after|by) [0-9.]+(ms|s)`).ReplaceAllString(text, "$1 T")
	return regexp.MustCompile(` +\d+(\.\d)?s$`).ReplaceAllString(text, " T")
}

// The example fleet, piped and on a terminal.
func TestReadmeDemo(t *testing.T) {
	t.Parallel()
	picture := strings.Split(strings.TrimSpace(readmeBlock(t, "", "NAME ")), "\n")
	split := slices.IndexFunc(picture, func(l string) bool { return strings.Contains(l, "Ctrl-C") })
	summary := strings.Split(strings.TrimSpace(readmeBlock(t, "", "group restarts:")), "\n")
	// Each run has its own project, because a project has one fleet.
	example := func(t *testing.T) (file string) {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples", "fleet"))); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "coppice.toml")
	}

	t.Run("piped", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		r := launch(t, t.TempDir(), "run", "-f", example(t))
		r.wantExit(0)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it takes %v", took)
		}
		lines := r.out.lines()
		if d := cmp.Diff(summary, lines[len(lines)-len(summary):]); d != "" {
			t.Errorf("summary (-README +got):\n%s", d)
		}
		if r.err.String() != "" {
			t.Errorf("stderr: %s", r.err)
		}
		seen := map[string]bool{}
		for _, l := range lines {
			seen[maskDurations(l)] = true
		}
		for _, l := range picture[split+1:] {
			if !seen[maskDurations(l)] {
				t.Errorf("the README shows %q, which never comes; there are:\n%s", l, strings.Join(slices.Sorted(maps.Keys(seen)), "\n"))
			}
		}
	})

	t.Run("terminal", func(t *testing.T) {
		t.Parallel()
		s := newScreen(t, t.TempDir(), 140, 40, "coppice run -f "+example(t))
		// At some moment the screen matches, except for the width of columns.
		var lines []string
		for _, l := range picture[:split+1] {
			l = regexp.MustCompile(` +`).ReplaceAllString(regexp.QuoteMeta(maskDurations(l)), ` +`)
			lines = append(lines, strings.TrimSuffix(l, " +T")+` *\S*`)
		}
		s.await(strings.Join(lines, "\n"))
		text := s.wantEnd(0)
		if !strings.Contains(text, strings.Join(summary, "\n")+"\n") {
			t.Errorf("no summary in the last picture:\n%s", text)
		}
	})
}

// go install PACKAGE@VERSION, which the README names, refuses modules that replace others.
func TestReadmeInstall(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	module := regexp.MustCompile(`(?m)^module (.+)$`).FindSubmatch(mod)
	if want := fmt.Sprintf("go install %s/cmd/coppice@latest", module[1]); !strings.Contains(string(readme), want) {
		t.Errorf("the README does not say %q", want)
	}
	if line := regexp.MustCompile(`(?m)^(replace|exclude)\b.*$`).Find(mod); line != nil {
		t.Errorf("go.mod has %q", line)
	}
}

// The defaults in the table of limits match the code.
func TestReadmeLimits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(escalate|quarantine|give_up|pause)`[^|]*\\|([^|]*)\\| ([^|]*) \\|").FindAllStringSubmatch(string(text), -1)
	if len(rows) != 4 {
		t.Fatalf("%d rows, want 4", len(rows))
	}
	counts := map[supervisor.Count]string{supervisor.CountRestarts: "restarts in the supervisor", supervisor.CountStarts: "starts of one agent",
		supervisor.CountConsecutive: "consecutive restarts of one agent", supervisor.CountFailures: "failures below the supervisor"}
	for _, row := range rows {
		tree, err := config.Parse("/x/coppice.toml", fmt.Appendf(nil, "[[agent]]\nname = \"a\"\ncommand = \"a\"\non_limit = %q\n", row[1]))
		if err != nil {
			t.Fatal(err)
		}
		limit := tree.Root.Children[0].Agent.Limit
		want := fmt.Sprint(limit.Max)
		switch {
		case limit.Within >= time.Hour:
			want += fmt.Sprintf(" in %d h", limit.Within/time.Hour)
		case limit.Within > time.Minute:
			want += fmt.Sprintf(" in %d min", limit.Within/time.Minute)
		case limit.Within > 0:
			want += fmt.Sprintf(" in %d s", limit.Within/time.Second)
		}
		if row[3] != want {
			t.Errorf("%s: the README says %q, the default is %q", row[1], row[3], want)
		}
		if !strings.Contains(row[2], counts[limit.Count]) {
			t.Errorf("%s: the README says that %q are counted, it is %q", row[1], row[2], counts[limit.Count])
		}
		if limit.OnLimit.String() != row[1] {
			t.Errorf("%s: %v", row[1], limit)
		}
	}
	tree, err := config.Parse("/x/coppice.toml", []byte("[[agent]]\nname = \"a\"\ncommand = \"a\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tree.Root.Limit, supervisor.Quarantining(20, time.Hour); got != want {
		t.Errorf("the root has %v, want %v", got, want)
	}
}
