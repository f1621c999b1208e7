package test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Closing the output ends the fleet and leaves nothing behind.
func TestReaderGoesAway(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"", "--json"} {
		t.Run("run"+flag, func(t *testing.T) {
			t.Parallel()
			dir := project(t, agentTOML("a", `while echo tick; do sleep 0.02; done`), agentTOML("b", sleeper))
			r := newCoppice(t, strings.Fields("run "+flag)...)
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Stdout = write
			r.start(dir)
			write.Close()
			if _, err := bufio.NewReader(read).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			read.Close()
			r.wantExit(1)
			if got, want := r.err.String(), "coppice: writing to the standard output: "; !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
				t.Errorf("stderr %q, want one line %q...", got, want)
			}
		})
	}
}

// A reader that does not read blocks agents, but must not block stopping them.
func TestReaderDoesNotRead(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", `yes; echo never`), agentTOML("b", sleeper))
	r := newCoppice(t, "run")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	r.Stdout = write
	r.start(dir)
	write.Close()
	if _, err := io.ReadFull(read, make([]byte, 4096)); err != nil { // wait until it writes
		t.Fatal(err)
	}
	agents := processesIn(t, dir)
	r.signal(syscall.SIGTERM)
	for _, p := range agents {
		if p.pid != r.Process.Pid && !strings.HasPrefix(p.name, "coppice shim") { // which holds the unread output
			p.awaitEnd(t)
		}
	}
	if _, err := io.Copy(io.Discard, read); err != nil {
		t.Fatal(err)
	}
	r.wantExit(143)
}

// discardWriter discards and counts what is written, and tracks the peak memory of the writing
// process.
type discardWriter struct {
	n, marks int
	process  func() int // pid
	peak     int        // kB
	looked   int
}

func (d *discardWriter) Write(p []byte) (int, error) {
	d.n += len(p)
	d.marks += bytes.Count(p, []byte{'#'})
	if d.n-d.looked > 1_000_000 {
		d.looked = d.n
		// The peak that wait(2) reports includes the memory of this process before exec.
		if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.process())); err == nil {
			if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
				fmt.Sscan(rest, &d.peak)
			}
		}
	}
	return len(p), nil
}

// A line of 100 MB is passed on in parts, and not kept.
func TestEndlessLine(t *testing.T) {
	t.Parallel()
	for flag, size := range map[string]int{"": 100_000_000, "--json": 10_000_000} {
		t.Run("run"+flag, func(t *testing.T) {
			t.Parallel()
			dir := project(t, agentTOML("a", fmt.Sprintf(`head -c %d /dev/zero | tr '\0' '#'`, size), `restart = "never"`))
			r := newCoppice(t, strings.Fields("run "+flag)...)
			out := &discardWriter{process: func() int { return r.Process.Pid }}
			r.Stdout = out
			r.start(dir)
			r.wantExit(0)
			if out.marks != size {
				t.Errorf("%d bytes of output, want %d", out.marks, size)
			}
			if most := size + size/100; out.n > most {
				t.Errorf("%d bytes in all, want at most %d", out.n, most)
			}
			// This allows for the race detector; otherwise 40 MB are enough.
			if mb := out.peak >> 10; mb > 150 || mb == 0 && runtime.GOOS == "linux" {
				t.Errorf("it needed %d MB", mb)
			} else {
				t.Logf("%d MB", mb)
			}
		})
	}
}

// hidden reports whether a terminal acts on a character instead of showing it.
func hidden(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// Output of agents is shown as valid text and cannot act on the terminal.
func TestHostileOutput(t *testing.T) {
	t.Parallel()
	script := `printf 'a\033[2Jb\033]0;title\007c\302\233Hd\342\200\256e\377f\000g\bh\ti\rj\n'; head -c 300000 /dev/urandom; echo; echo last`
	toml := agentTOML("a", script, `restart = "never"`)

	r := launch(t, project(t, toml), "run")
	r.wantExit(0)
	out := r.out.String()
	if want := "t/a | abcde\uFFFDfgh\ti j\n"; !strings.Contains(out, want) {
		t.Errorf("no %q in %.200q", want, out)
	}
	if !utf8.ValidString(out) {
		t.Error("the output is not UTF-8")
	}
	for i, c := range out {
		if c != '\n' && c != '\t' && hidden(c) {
			t.Fatalf("%U in %q", c, out[max(0, i-20):min(len(out), i+20)])
		}
	}
	for _, line := range r.out.lines() {
		if !strings.HasPrefix(line, "t/a | ") && !strings.HasPrefix(line, "t/a * ") && !strings.HasPrefix(line, "t * ") {
			t.Fatalf("a line without its path: %q", line)
		}
	}

	r = launch(t, project(t, toml), "run", "--json")
	r.wantExit(0)
	if i := strings.IndexFunc(r.out.String(), func(c rune) bool { return c != '\n' && hidden(c) }); i >= 0 {
		t.Errorf("a control character in NDJSON: %q", r.out.String()[max(0, i-20):i+1])
	}
	if got, want := r.awaitReport("agent.output a 1", "").Message, "a\x1b[2Jb\x1b]0;title\ac\u009bHd\u202ee\uFFFDf\x00g\bh\ti\rj"; got != want {
		t.Errorf("message %q, want %q as it was written", got, want)
	}
	r.awaitReport("agent.output a 1", "last")
}

// The summary comes last, even after the output of a descendant that holds the pipe until it is
// killed.
func TestSummaryComesLast(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", `[ $COPPICE_INCARNATION = 2 ] || exit 1
		setsid sh -c 'echo straggler; echo > away; while :; do echo; done' & read x < away; exit 0`, `restart = "on-failure"`, `backoff = { kind = "fixed", base = "1ms" }`))
	fifo(t, dir, "away")
	r := launch(t, dir, "run")
	r.wantExit(0)
	lines := r.out.lines()
	if got, want := lines[len(lines)-1], "backoff:        1 restart delayed, the longest by 1ms (t/a)"; got != want {
		t.Errorf("last line %q, want %q", got, want)
	}
	if !strings.Contains(r.out.String(), "t/a | straggler\n") {
		t.Errorf("the straggler's line is missing:\n%.500s", r.out)
	}
}

// Agents do not inherit the signal settings of coppice.
func TestAgentsGetDefaultSignals(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	r := launch(t, project(t, agentTOML("a", `grep -E '^Sig(Ign|Blk)' /proc/self/status`, `restart = "never"`)), "run")
	r.wantExit(0)
	// Except for signals that coppice cannot restore: a C library reserves 32 and above, and they
	// may have been ignored before.
	for _, what := range []string{"SigBlk", "SigIgn"} {
		_, rest, _ := strings.Cut(r.out.String(), what+":\t")
		mask, err := strconv.ParseUint(rest[:min(16, len(rest))], 16, 64)
		if err != nil || mask&0x7fffffff != 0 {
			t.Errorf("%s is %x, %v, in\n%s", what, mask, err, r.out)
		}
	}
}

// Agents survive a killed coppice. The next run adopts them and shows their further output; down
// stops them without a daemon.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := project(t,
		agentTOML("a", `trap 'echo bye; exit 0' TERM; echo "up $$"; read x < go; echo went; while :; do sleep 1000 & wait $!; done`),
		agentTOML("b", `trap '' HUP INT; echo "up $$"; exec sleep 1001`),
		agentTOML("c", `echo "up $COPPICE_INCARNATION $$"; [ -e once ] || exec sleep 1002`, `restart = "on-failure"`))
	release := fifo(t, dir, "go")
	ups := func(r *childProcess, n int) {
		r.out.await(t, "the agents", func() bool {
			return len(regexp.MustCompile(`(?m)^t/. \| up `).FindAllString(r.out.String(), -1)) == n
		})
	}
	r := launch(t, dir, "run")
	ups(r, 3)
	r.signal(syscall.SIGKILL)
	r.exit()

	// Agents that end meanwhile start again, from the beginning.
	write(t, dir+"/once", "")
	pid := regexp.MustCompile(`(?m)^t/c \| up 1 (\d+)$`).FindStringSubmatch(r.out.String())
	for _, p := range processesIn(t, dir) {
		if pid != nil && fmt.Sprint(p.pid) == pid[1] {
			p.kill()
			p.awaitEnd(t)
		}
	}
	r = launch(t, dir, "run")
	for _, want := range []string{"t/a * taken over, incarnation 1\n", "t/b * taken over, incarnation 1\n", "t/c | up 1 ", "t/c * ended after "} {
		r.out.awaitText(t, want)
	}
	release()
	r.out.awaitText(t, "t/a | went\n")
	if out := r.out.String(); strings.Contains(out, "t/a | up") || strings.Contains(out, "t/b | up") {
		t.Errorf("output of before is shown:\n%s", out)
	}
	r.signal(syscall.SIGTERM)
	r.wantExit(143)
	r.out.awaitText(t, "t/a | bye\n")
	for _, p := range processesIn(t, dir) {
		p.awaitEnd(t)
	}

	r = launch(t, dir, "run")
	r.out.awaitText(t, "t * started")
	ups(r, 3)
	r.signal(syscall.SIGKILL)
	r.exit()
	r = launch(t, dir, "doctor")
	r.wantExit(0)
	r.out.awaitText(t, "2 live without a daemon; coppice up -d takes them over, coppice down stops them")
	r = launch(t, dir, "down")
	r.wantExit(0)
	said := r.out.lines() // agents without dependants are stopped at the same time
	slices.Sort(said[:max(0, len(said)-1)])
	if got, want := strings.Join(said, "\n"), "t/a stopped\nt/b stopped\n2 agents without a daemon, all stopped"; got != want {
		t.Errorf("down says %q, want %q", got, want)
	}
	for _, p := range processesIn(t, dir) {
		p.awaitEnd(t)
	}
	for _, args := range [][]string{{"down"}, {"down", "--keep-agents"}} {
		if out, _ := coppice(t, dir, 0, args...); !strings.HasPrefix(out, "already down: no daemon is running") {
			t.Errorf("%q says %q", args, out)
		}
	}
	// The next daemon finds an orderly end.
	r = launch(t, dir, "up")
	r.out.awaitText(t, "t/b started")
	if out := r.out.String(); strings.Contains(out, "restarted, incarnation") || strings.Contains(out, "restart in") || strings.Contains(out, "taken over, incarnation") {
		t.Errorf("after down, up says:\n%s", out)
	}
	r.signal(syscall.SIGTERM)
	r.wantExit(0)
}

// All processes that an agent leaves behind end with it, whatever their group or session.
func TestEscape(t *testing.T) {
	t.Parallel()
	dir := project(t, agentTOML("a", `setsid sh -c 'echo > away; exec sleep 1000' & read x < away; exit 0`, `restart = "never"`))
	fifo(t, dir, "away")
	r := launch(t, dir, "run")
	r.wantExit(0)
	for _, p := range processesIn(t, dir) {
		p.awaitEnd(t)
	}
}

// A list without entries is an empty array as JSON, with a daemon and without.
func TestEmptyListsAsJSON(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", sleeper))
	lists := []string{"quota ls", "order ls", "task ls", "task ls --all", "belief ls", "mail ls", "mail ls --all"}
	check := func() {
		t.Helper()
		for _, list := range lists {
			if out, _ := coppice(t, f.dir, 0, append(strings.Fields(list), "--json")...); out != "[]\n" {
				t.Errorf("coppice %s --json: %q", list, out)
			}
		}
		if out, _ := coppice(t, f.dir, 0, "inbox", "--json"); out != `{"mail":[],"questions":[]}`+"\n" {
			t.Errorf("%q", out)
		}
	}
	f.up()
	check()
	f.do("down")
	check()
}
