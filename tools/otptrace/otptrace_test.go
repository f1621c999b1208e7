package main

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

var (
	count = flag.Int("scripts", 300, "how many random scripts TestRandomScripts compares")
	seed  = flag.Uint64("seed", 0, "seed of TestRandomScripts, to replay a run; 0 takes $SEED, or a new one")
)

// Each run compares other scripts, unless SEED is set. To see one again:
//
//	go test ./tools/otptrace -run TestRandomScripts -seed N
func TestRandomScripts(t *testing.T) {
	erl := needErlang(t)
	if *seed == 0 {
		*seed, _ = strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("seed %d; replay with: go test ./tools/otptrace -run TestRandomScripts -seed %d -scripts %d", *seed, *seed, *count)
	r := rand.New(rand.NewPCG(*seed, 0))
	scripts := make([]string, *count)
	for i := range scripts {
		scripts[i] = generate(r)
	}
	erl.compare(t, scripts)
}

// Probe 15 asks what happens when the restart of a simple_one_for_one
// instance is ignored. OTP 25 keeps a bogus entry and crashes in its
// shutdown (fixed later, supervisor_SUITE simple_one_for_one_restart_ignore),
// so that the answer is written here.
const probe15 = "% 15 "

const answer15 = `> sup simple_one_for_one 5 5 never
> child x permanent 100 false worker ok,ignore obey
> start
= ok
> add i1
+ i1 1
= {ok,pid}
> exit i1 crash
- i1 crash
~ i1 2
> which
= []
> count
= [{specs,1},{active,0},{supervisors,0},{workers,0}]
> stop
# shutdown
`

func TestProbes(t *testing.T) {
	erl := needErlang(t)
	text, err := os.ReadFile("testdata/probes.txt")
	if err != nil {
		t.Fatal(err)
	}
	probes := strings.Split(string(text), "\n---\n")
	var same []string
	for _, p := range probes {
		if strings.HasPrefix(p, probe15) {
			if got, _ := ours(t, []string{p}); got[0] != answer15 {
				t.Errorf("probe 15 (left: the expected answer):\n%s", diff(answer15, got[0]))
			}
			continue
		}
		same = append(same, p)
	}
	if len(probes) != 19 || len(same) != 18 {
		t.Fatalf("%d probes, %d without probe 15", len(probes), len(same))
	}
	erl.compare(t, same)
}

// What random scripts meet rarely.
func TestCases(t *testing.T) {
	erl := needErlang(t)
	text, err := os.ReadFile("testdata/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	erl.compare(t, strings.Split(string(text), "\n---\n"))
}

func TestBadInput(t *testing.T) {
	for in, want := range map[string]string{
		"sup one_for_one 1 5 never\nfrobnicate\n": "line 2: \"frobnicate\": unknown command",
		"start now\n":                                             "line 1: \"start now\": start takes 0 arguments, not 1",
		"sup one_for_one 1 5 Never\n":                             `line 1: "sup one_for_one 1 5 Never": term "Never": unexpected "Never"`,
		"child a permanent 1 false worker maybe obey\n":           "start outcome \"maybe\" is not one of",
		"child a permanent 1 false worker , obey\n":               "no start outcome",
		"child a permanent 1 false worker ok linger:x\n":          "stop \"linger:x\" is not one of",
		"child a {" + strings.Repeat("{", 2000) + " 1 a b ok c\n": "nested deeper",
		strings.Repeat("x", 2<<20):                                "line 1: bufio.Scanner: token too long",
	} {
		var out bytes.Buffer
		if err := run(strings.NewReader(in), &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %.200v, want %q", in, err, want)
		}
	}
}
