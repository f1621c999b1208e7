package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseFlags(t *testing.T) {
	c, err := parseFlags([]string{"-quick", "-only", "spawn,exec", "-impl", "raw,coppice"})
	if err != nil || c.reps != 3 || !slices.Equal(c.only, []string{"spawn", "exec"}) || len(c.impls) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range [][]string{{"-only", "spwan"}, {"-only", ""}, {"-reps", "-1"}, {"-doc", "results"}, {"5"}} {
		if c, err := parseFlags(bad); err == nil {
			t.Errorf("%q: %+v, want an error", bad, c)
		}
	}
}

func TestMatrix(t *testing.T) {
	c, err := parseFlags(nil)
	if err != nil {
		t.Fatal(err)
	}
	all := programs{gobench: "g", beam: "b", execfloor: "e", agentkill: "a", acted: "x", fleetcost: "f",
		followcost: "o", lookcost: "l", storecost: "r", etcd: "d", firstact: "f", coppice: "c", compose: "p", supervisord: "s"}
	names := func(jobs []job) []string {
		var out []string
		for _, j := range jobs {
			out = append(out, j.scenario+" "+j.impl)
		}
		return out
	}
	first, second := names(matrix(c, all, 0)), names(matrix(c, all, 1))
	if slices.Equal(first, second) {
		t.Error("the second repetition has the order of the first")
	}
	slices.Sort(first)
	slices.Sort(second)
	if !slices.Equal(first, second) {
		t.Errorf("the second repetition asks something else:\n%q\n%q", first, second)
	}
	for _, j := range matrix(c, programs{gobench: "g"}, 0) {
		elsewhere := []string{"exec", "exit", "acted", "fleet", "look", "follow-claude", "follow-codex", "cron",
			"store"}
		if j.argv[0] != "g" || slices.Contains(elsewhere, j.scenario) {
			t.Errorf("asked although not built: %+v", j)
		}
	}
	c.only, c.impls = []string{"rest"}, []string{"otp"}
	if got := names(matrix(c, all, 0)); !slices.Equal(got, []string{"rest otp-static", "rest otp-static-gs"}) {
		t.Errorf("only OTP's rest: %q", got)
	}
}

func TestStores(t *testing.T) {
	asked := func(p programs) []string {
		var out []string
		for _, j := range matrix(config{only: []string{"store"}}, p, 0) {
			out = append(out, fmt.Sprintf("%s %d", j.impl, j.n))
		}
		return out
	}
	all := []string{"raw-etcd 1", "coppice-etcd 1", "raw-sqlite 1", "coppice-sqlite 1", "raw-etcd 3", "coppice-etcd 3"}
	if got := asked(programs{storecost: "r", etcd: "d"}); !slices.Equal(got, all) {
		t.Errorf("stores: %q", got)
	}
	if got := asked(programs{storecost: "r"}); !slices.Equal(got, all[2:4]) {
		t.Errorf("stores without the server of etcd: %q", got)
	}
}

func TestFleets(t *testing.T) {
	all := programs{gobench: "g", fleetcost: "f", coppice: "c", compose: "p", supervisord: "s"}
	asked := func(p programs, quick bool) map[string][]int {
		ns := map[string][]int{}
		for _, j := range matrix(config{quick: quick, only: []string{"fleet"}}, p, 0) {
			ns[j.impl] = append(ns[j.impl], j.n)
		}
		return ns
	}
	four := []int{10, 100, 1000, 10_000}
	if got := asked(all, false); !slices.Equal(got["raw"], four) || !slices.Equal(got["coppice-up"], four) ||
		!slices.Equal(got["process-compose"], four) || !slices.Equal(got["supervisord"], four[:3]) {
		t.Errorf("fleets: %v", got)
	}
	all.compose = ""
	if got := asked(all, true); len(got["process-compose"]) > 0 || !slices.Equal(got["supervisord"], four[:2]) {
		t.Errorf("quick fleets without process-compose: %v", got)
	}
}

func TestWritePage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "performance.md")
	results := filepath.Join("..", "..", "internal", "report", "testdata", "fleet.ndjson")
	if err := writePage(page, results); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "(performance.svg)") {
		t.Errorf("the page has no image: %v\n%s", err, text)
	}
	if image, err := os.ReadFile(strings.TrimSuffix(page, ".md") + ".svg"); err != nil || len(image) == 0 {
		t.Errorf("no image: %v", err)
	}
	if err := writePage(page, page); err == nil || !strings.Contains(err.Error(), page+": line 1") {
		t.Errorf("results that are none: %v", err)
	}
}
