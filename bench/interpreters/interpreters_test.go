// Package interpreters measures Sage's evaluator next to interpreters that are
// often embedded in Go programs, with the same work for each.
package interpreters

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/d5/tengo/v2"
	lua "github.com/yuin/gopher-lua"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/sage/source"
)

// work is one task in each language. Each program defines what it needs; the
// result is checked.
type work struct {
	name, want             string
	result                 string // the call, the same in all
	sage, lua, star, tengo string
}

var tasks = []work{
	{
		name: "fib30", want: "832040",
		sage:   `fn fib(n: Int) -> Int { if n < 2 { return n; } return fib(n - 1) + fib(n - 2); }`,
		lua:    `function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end`,
		star:   "def fib(n):\n  if n < 2:\n    return n\n  return fib(n - 1) + fib(n - 2)\n",
		tengo:  `fib := func(n) { if n < 2 { return n }; return fib(n - 1) + fib(n - 2) }`,
		result: "fib(30)",
	},
	{
		name: "loop", want: "2166666833331",
		sage:   `fn run() -> Int { let s = 0; let i = 0; while i < 1000000 { if i % 3 != 0 { s += i * 2; } else { s += i * 9; } i += 1; } return s; }`,
		lua:    `function run() local s = 0; local i = 0; while i < 1000000 do if i % 3 ~= 0 then s = s + i * 2 else s = s + i * 9 end i = i + 1 end return s end`,
		star:   "def run():\n  s = 0\n  i = 0\n  while i < 1000000:\n    if i % 3 != 0:\n      s += i * 2\n    else:\n      s += i * 9\n    i += 1\n  return s\n",
		tengo:  `run := func() { s := 0; i := 0; for i < 1000000 { if i % 3 != 0 { s += i * 2 } else { s += i * 9 }; i += 1 }; return s }`,
		result: "run()",
	},
	{
		name: "list", want: "148933",
		// How many numbers below 2,000,000 are prime.
		sage: `fn run() -> Int { let n = 2000000; let s = [false]; let i = 1; while i < n { s = push(s, true); i += 1; }
			let c = 0; i = 2; while i < n { if s[i] { c += 1; let j = i + i; while j < n { s[j] = false; j += i; } } i += 1; } return c; }`,
		lua: `function run() local n = 2000000; local s = {}; s[1] = false; local i = 1; while i < n do s[#s + 1] = true; i = i + 1 end
			local c = 0; i = 2; while i < n do if s[i + 1] then c = c + 1; local j = i + i; while j < n do s[j + 1] = false; j = j + i end end i = i + 1 end return c end`,
		star: "def run():\n  n = 2000000\n  s = [False]\n  i = 1\n  while i < n:\n    s.append(True)\n    i += 1\n  c = 0\n  i = 2\n  while i < n:\n    if s[i]:\n      c += 1\n      j = i + i\n      while j < n:\n        s[j] = False\n        j += i\n    i += 1\n  return c\n",
		tengo: `run := func() { n := 2000000; s := [false]; i := 1; for i < n { s = append(s, true); i += 1 }
			c := 0; i = 2; for i < n { if s[i] { c += 1; j := i + i; for j < n { s[j] = false; j += i } }; i += 1 }; return c }`,
		result: "run()",
	},
	{
		name: "string", want: "40000",
		// Words are made, collected, joined, and split again.
		sage: `fn run() -> Int { let parts: List<String> = []; let i = 0; while i < 10000 { parts = push(parts, "w" ++ str(i)); i += 1; }
			let text = join(parts, " "); let n = 0; for w in split(text, " ") { if starts_with(w, "w9") { n += 1; } n += len(w); } return n - 10001; }`,
		lua: `function run() local parts = {}; local i = 0; while i < 10000 do parts[#parts + 1] = "w" .. tostring(i); i = i + 1 end
			local text = table.concat(parts, " "); local n = 0; for w in string.gmatch(text, "%S+") do if string.sub(w, 1, 2) == "w9" then n = n + 1 end n = n + #w end return n - 10001 end`,
		star: "def run():\n  parts = []\n  i = 0\n  while i < 10000:\n    parts.append(\"w\" + str(i))\n    i += 1\n  text = \" \".join(parts)\n  n = 0\n  for w in text.split(\" \"):\n    if w.startswith(\"w9\"):\n      n += 1\n    n += len(w)\n  return n - 10001\n",
		tengo: `text := import("text"); run := func() { parts := []; i := 0; for i < 10000 { parts = append(parts, "w" + string(i)); i += 1 }
			all := text.join(parts, " "); n := 0; for w in text.split(all, " ") { if text.has_prefix(w, "w9") { n += 1 }; n += len(w) }; return n - 10001 }`,
		result: "run()",
	},
}

func Benchmark(b *testing.B) {
	for _, w := range tasks {
		for _, one := range []struct {
			name string
			prep func(testing.TB, work) func() string
		}{{"sage", runSage}, {"gopher-lua", runLua}, {"starlark", runStarlark}, {"tengo", runTengo}} {
			b.Run(w.name+"/"+one.name, func(b *testing.B) {
				do := one.prep(b, w)
				for b.Loop() {
					if got := do(); got != w.want {
						b.Fatalf("%s, want %s", got, w.want)
					}
				}
			})
		}
	}
}

func runSage(t testing.TB, w work) func() string {
	text := w.sage + "\nagent Main { on start { print(" + w.result + "); } }\nrun Main;\n"
	info, diagnostics := check.Program(source.NewFile("main.sg", text), check.Config{})
	if diag.HasErrors(diagnostics) {
		t.Fatal(diagnostics)
	}
	p, err := eval.Load(info)
	if err != nil {
		t.Fatal(err)
	}
	return func() string {
		var out strings.Builder
		in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard)})
		defer in.Close()
		if err := in.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
}

func runLua(t testing.TB, w work) func() string {
	l := lua.NewState(lua.Options{RegistrySize: 1 << 18})
	t.Cleanup(l.Close)
	if err := l.DoString(w.lua + "\nfunction call() return " + w.result + " end"); err != nil {
		t.Fatal(err)
	}
	return func() string {
		if err := l.CallByParam(lua.P{Fn: l.GetGlobal("call"), NRet: 1, Protect: true}); err != nil {
			t.Fatal(err)
		}
		defer l.Pop(1)
		return fmt.Sprintf("%.0f", float64(l.Get(-1).(lua.LNumber)))
	}
}

func runStarlark(t testing.TB, w work) func() string {
	options := &syntax.FileOptions{While: true, Recursion: true, GlobalReassign: true}
	thread := &starlark.Thread{}
	globals, err := starlark.ExecFileOptions(options, thread, "main.star", w.star+"\ndef call():\n  return "+w.result+"\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	return func() string {
		v, err := starlark.Call(thread, globals["call"], nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.String()
	}
}

func runTengo(t testing.TB, w work) func() string {
	s := tengo.NewScript([]byte(w.tengo + "\nresult := " + w.result))
	s.SetImports(tengoModules())
	c, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return func() string {
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		return c.Get("result").String()
	}
}
