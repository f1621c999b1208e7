package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// erlang is the real supervisor: testdata/otporacle.erl, compiled.
type erlang struct{ dir string }

// needErlang compiles the oracle. Without Erlang the test is skipped, but not
// where everything is meant to be there.
func needErlang(t *testing.T) erlang {
	t.Helper()
	for _, tool := range []string{"erl", "erlc"} {
		if _, err := exec.LookPath(tool); err != nil {
			const how = "this test compares with Erlang's own supervisor; install it with: apt-get install erlang-base (elsewhere: the package erlang)"
			if os.Getenv("CI") == "true" {
				t.Fatalf("%v; %s", err, how)
			}
			t.Skipf("%v; %s", err, how)
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
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
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
	return splitTraces(t, "erl", string(out), len(scripts))
}

// ours returns what this runner says.
func ours(t *testing.T, scripts []string) []string {
	t.Helper()
	var out bytes.Buffer
	if err := run(strings.NewReader(strings.Join(scripts, "\n---\n")), &out); err != nil {
		t.Fatalf("otptrace: %v", err)
	}
	return splitTraces(t, "otptrace", out.String(), len(scripts))
}

func splitTraces(t *testing.T, who, out string, want int) []string {
	t.Helper()
	traces := strings.Split(out, "---\n")
	traces = traces[:len(traces)-1]
	if len(traces) != want {
		t.Fatalf("%s: %d traces of %d scripts", who, len(traces), want)
	}
	return traces
}

// jobs is how many scripts Erlang runs at a time; they mostly sleep.
const jobs = 24

// compare fails the test with a minimal script for each script whose traces
// differ, up to a few.
func (e erlang) compare(t *testing.T, scripts []string) {
	t.Helper()
	theirs := e.run(t, scripts, jobs)
	mine := ours(t, scripts)
	shown, doubtful := 0, 0
	for i, script := range scripts {
		switch {
		case theirs[i] == mine[i]:
		case e.says(t, script, mine[i]):
			doubtful++
		case shown < 5:
			shown++
			script = e.minimise(t, script)
			t.Errorf("differs from Erlang, script %d:\n%s\n\n%s", i, script, diff(e.run(t, []string{script}, 1)[0], ours(t, []string{script})[0]))
		default:
			t.Errorf("script %d differs, too", i)
		}
	}
	t.Logf("%d scripts, %d lines, %d where Erlang itself has more than one answer", len(scripts), strings.Count(strings.Join(mine, ""), "\n"), doubtful)
}

// says reports whether the trace is among Erlang's answers to a script. Where
// a script goes on while a child is slow to stop, it has more than one: the
// clock decides which comes first.
func (e erlang) says(t *testing.T, script, trace string) bool {
	t.Helper()
	again := slices.Repeat([]string{script}, 4)
	return slices.Contains(e.run(t, again, 1), trace) || slices.Contains(e.run(t, again, 4), trace)
}

// minimise drops lines as long as the traces still differ.
func (e erlang) minimise(t *testing.T, script string) string {
	t.Helper()
	for {
		lines := strings.Split(script, "\n")
		var shorter []string
		for i := range lines {
			shorter = append(shorter, strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n"))
		}
		theirs, again, mine := e.run(t, shorter, jobs), e.run(t, shorter, jobs), ours(t, shorter)
		next := ""
		for i, s := range shorter {
			if len(lines) > 2 && theirs[i] == again[i] && mine[i] != theirs[i] && !strings.Contains(theirs[i], "\n? ") {
				next = s
			}
		}
		if next == "" {
			return script
		}
		script = next
	}
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
