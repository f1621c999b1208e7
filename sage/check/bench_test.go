package check_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/check"
	"github.com/coppice-dev/coppice/sage/diag"
	"github.com/coppice-dev/coppice/sage/source"
)

// large returns a program of at least that many lines that uses most of the language.
func large(lines int) string {
	var b strings.Builder
	b.WriteString("enum Level { Low, High(Int), Named(String, Int) }\nrecord Point { x: Int, y: Int, tags: List<String> }\n")
	for i := 0; strings.Count(b.String(), "\n") < lines; i++ {
		for k := range 20 {
			n := i*20 + k
			fmt.Fprintf(&b, `fn work%d(n: Int, names: List<String>) -> Int fails {
    let total = 0;
    for (i, name) in enumerate(names) {
        if str_len(name) > n-1 && !is_empty(name) {
            total += i * 2 + len(name);
        } else {
            total = total - 1;
        }
    }
    let level = if total > 10 { High(total) } else { Low };
    let text = match level {
        Low => "low {n}",
        High(x) => "high " ++ str(x),
        Named(s, _) => s,
    };
    let p = Point { x: n, y: total, tags: map(names, |s| to_upper(s) ++ text) };
    if p.x < 0 { fail "negative: {p}"; }
    return reduce(filter(range(0, p.y), |v| v %% 2 == 0), 0, |a, v| a + v) + len(p.tags);
}
`, n)
		}
		fmt.Fprintf(&b, `agent Worker%d receives Level {
    @persistent count: Int
    @persistent seen: Map<String, Int>
    name: String
    on waking { trace("{self.name} is back"); }
    on start {
        self.count = self.count + 1;
        map_set(self.seen, self.name, self.count.get());
        let n = try work%d(self.count, ["a", "b", self.name]);
        yield(n);
    }
    on message(m: Level) { match m { High(n) => { self.count.set(n); } _ => {} } }
    on error(e) { print("failed: {e.message}"); yield(-1); }
}
supervisor Group%d {
    strategy: OneForOne
    children {
        Worker%d { restart: Permanent name: "a" }
        Worker%d { restart: Transient name: "b" }
    }
}
`, i, i*20, i, i, i)
	}
	return b.String()
}

func BenchmarkProgram(b *testing.B) {
	text := large(10_000)
	b.ReportMetric(float64(strings.Count(text, "\n")), "lines")
	for b.Loop() {
		_, diagnostics := check.Program(source.NewFile("main.sg", text), check.Config{})
		if diag.HasErrors(diagnostics) {
			b.Fatal(render(diagnostics))
		}
	}
}

func BenchmarkSmallProgram(b *testing.B) {
	for b.Loop() {
		_, diagnostics := check.Program(source.NewFile("main.sg", "agent A { on start { yield(0); } }\nrun A;\n"), check.Config{})
		if diag.HasErrors(diagnostics) {
			b.Fatal(render(diagnostics))
		}
	}
}
