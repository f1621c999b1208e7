package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// erlang is the real supervisor: testdata/otporacle.erl, compiled.
type erlang struct{ dir string }

// needErlang compiles the oracle. Without Erlang the test is skipped, but not
// where everything is meant to be there.
func needErlang(t *testing.T) erlang {
	t.Helper()
	for _, tool := range []string{"erl", "erlc"} {
		if _, err := exec.LookPath(tool); err != nil {
			exectest.Missing(t, fmt.Errorf("%w; this test compares with Erlang's own supervisor; install it with: "+
				"apt-get install erlang-base (elsewhere: the package erlang)", err))
		}
	}
	dir := t.TempDir()
	if out, err := exec.Command("erlc", "-o", dir, "testdata/otporacle.erl").CombinedOutput(); err != nil {
		t.Fatalf("erlc testdata/otporacle.erl: %v\n%s", err, out)
	}
	return erlang{dir}
}

// run returns the trace of each script. Starting erl takes long, so many
// scripts go into one.
func (e erlang) run(t *testing.T, scripts []string, jobs int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(len(scripts))*time.Second/2)
	defer cancel()
	// One scheduler, so that what happens at once happens in one order.
	cmd := exec.CommandContext(ctx, "erl", "-noshell", "+S", "1:1", "-pa", e.dir, "-s", "otporacle")
	cmd.Env = append(os.Environ(), fmt.Sprintf("OTPORACLE_JOBS=%d", jobs))
	cmd.Stdin = strings.NewReader(strings.Join(scripts, "\n---\n"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("erl: %v\n%s", err, stderr.String())
	}
	traces := strings.Split(string(out), "---\n")
	if len(traces) != len(scripts)+1 {
		t.Fatalf("erl: %d traces of %d scripts:\n%s", len(traces)-1, len(scripts), stderr.String())
	}
	return traces[:len(scripts)]
}

// ours returns what this runner says, and which scripts Erlang is known to
// answer in another way.
func ours(t *testing.T, scripts []string) (traces []string, diverges []bool) {
	t.Helper()
	parsed, err := readScripts(strings.NewReader(strings.Join(scripts, "\n---\n")))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range playAll(parsed) {
		r := <-c
		if r.err != nil {
			t.Fatalf("%v, in:\n%s", r.err, scripts[i])
		}
		traces, diverges = append(traces, string(r.text())), append(diverges, r.diverges)
	}
	return traces, diverges
}

const (
	jobs    = 24 // how many scripts Erlang runs at a time; they mostly sleep
	rounds  = 3  // that scripts get in which the clock may have a say
	retries = 4  // in each of them
	shown   = 4  // differences
)

// differences returns the scripts, by number, on which Erlang and the library
// do not agree. Erlang's side takes a pause for the end of a line, which a
// loaded machine may make; so it is asked again, with less beside, and has to
// come to our answer. Where a script goes on while a child is slow to stop, the
// clock decides what comes first, so that either has more than one answer;
// there it is enough that they have one in common.
func (e erlang) differences(t *testing.T, scripts []string) (differ []int, doubtful, diverges int) {
	t.Helper()
	theirs := e.run(t, scripts, jobs)
	mine, aparts := ours(t, scripts)
	answers := map[int][2][]string{} // Erlang's and ours to the scripts in doubt
	for i := range scripts {
		switch {
		case theirs[i] == mine[i]:
		case aparts[i]:
			diverges++
		default:
			answers[i] = [2][]string{{theirs[i]}, {mine[i]}}
		}
	}
	for round := 0; round < rounds && len(answers) > 0; round++ {
		doubts := slices.Sorted(maps.Keys(answers))
		var repeated []string
		for _, i := range doubts {
			repeated = append(repeated, slices.Repeat([]string{scripts[i]}, retries)...)
		}
		theirs := e.run(t, repeated, rounds-round)
		mine, aparts := ours(t, repeated)
		for n, i := range doubts {
			from, to := n*retries, (n+1)*retries
			a := answers[i]
			a[0], a[1] = append(a[0], theirs[from:to]...), append(a[1], mine[from:to]...)
			answers[i] = a
			switch {
			case !slow(scripts[i]) && len(slices.Compact(slices.Clone(a[1]))) > 1: // ours has no excuse
			case slices.ContainsFunc(a[1], func(s string) bool { return slices.Contains(a[0], s) }):
				doubtful++
				delete(answers, i)
			case slices.Contains(aparts[from:to], true):
				diverges++
				delete(answers, i)
			}
		}
	}
	differ = slices.AppendSeq(differ, maps.Keys(answers))
	slices.Sort(differ)
	return differ, doubtful, diverges
}

// slow: a child may not end when it is asked to, or is given no time for it.
func slow(script string) bool {
	return strings.Contains(script, " hang") || strings.Contains(script, " linger") ||
		strings.Contains(script, " 0 false ") || strings.Contains(script, " 0 true ")
}

// compare fails the test where the library differs from Erlang, and shows
// the smallest scripts that do.
func (e erlang) compare(t *testing.T, scripts []string) {
	t.Helper()
	differ, doubtful, diverges := e.differences(t, scripts)
	t.Logf("%d scripts: %d differ; %d where the clock decides; %d set apart",
		len(scripts), len(differ), doubtful, diverges)
	for n, i := range differ {
		if n == shown {
			t.Errorf("%d more differ", len(differ)-n)
			return
		}
		script := e.minimise(t, scripts[i])
		mine, _ := ours(t, []string{script})
		theirs := e.run(t, []string{script}, 1)
		if theirs[0] == mine[0] { // what is wrong is wrong every time; a stalled machine is not
			t.Logf("script %d has differed from Erlang, and does no more:\n%s", i, script)
			continue
		}
		t.Errorf("script %d differs from Erlang. The smallest that does:\n%s\n\n%s", i, script, diff(theirs[0], mine[0]))
	}
}

// minimise drops lines as long as there is a difference.
func (e erlang) minimise(t *testing.T, script string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		lines := strings.Split(script, "\n")
		if len(lines) <= 2 {
			break
		}
		var shorter []string
		for i := range lines {
			shorter = append(shorter, strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n"))
		}
		differ, _, _ := e.differences(t, shorter)
		if len(differ) == 0 {
			break
		}
		script = shorter[differ[len(differ)-1]]
	}
	return script
}

// diff shows two traces side by side from some lines before the first difference.
func diff(erlang, ours string) string {
	a, b := strings.Split(strings.TrimSpace(erlang), "\n"), strings.Split(strings.TrimSpace(ours), "\n")
	var out strings.Builder
	fmt.Fprintf(&out, "  %-60s %s\n", "Erlang", "this library")
	at := func(l []string, i int) string {
		if i < len(l) {
			return l[i]
		}
		return ""
	}
	for i := range max(len(a), len(b)) {
		mark := " "
		if at(a, i) != at(b, i) {
			mark = "!"
		}
		fmt.Fprintf(&out, "%s %-60s %s\n", mark, at(a, i), at(b, i))
	}
	return out.String()
}
