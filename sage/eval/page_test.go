package eval_test

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
	"github.com/coppice-dev/coppice/supervisor"
)

// The examples in Sage's documentation of supervision, completed by the parts that they omit,
// behave as it says.
func TestSupervisionPage(t *testing.T) {
	const forever = " on start { print(\"%\"); loop { sleep_ms(1000); } } }\n"
	worker := func(name string) string { return "agent " + name + " {" + strings.ReplaceAll(forever, "%", name) }
	// This agent fails once, a second after its first start.
	failing := func(name string) string {
		return "agent " + name + " { @persistent n: Int on start { print(\"" + name + "\"); self.n += 1; if self.n == 1 { sleep_ms(1000); fail \"once\"; } loop { sleep_ms(1000); } } on error(e) { yield(-1); } }\n"
	}
	for name, c := range map[string]struct {
		missing string
		starts  map[string]int // starts within ten seconds
		limit   bool           // whether the program reaches its limit
	}{
		"declaration": {"agent DatabaseSteward { connection_string: String schema_version: Int on start { print(self.connection_string); loop { sleep_ms(1000); } } }\n" +
			"agent APISteward { port: Int on start { print(self.port); loop { sleep_ms(1000); } } }\nagent MetricsCollector { interval_ms: Int on start { print(self.interval_ms); yield(0); } }\n",
			map[string]int{"postgres://localhost/myapp": 1, "8080": 1, "5000": 1}, false},
		"one_for_one":  {worker("Worker1") + failing("Worker2") + worker("Worker3"), map[string]int{"Worker1": 1, "Worker2": 2, "Worker3": 1}, false},
		"one_for_all":  {worker("ConfigLoader") + failing("Worker1") + worker("Worker2"), map[string]int{"ConfigLoader": 2, "Worker1": 2, "Worker2": 2}, false},
		"rest_for_one": {worker("DatabaseSteward") + failing("APISteward") + worker("FrontendSteward"), map[string]int{"DatabaseSteward": 1, "APISteward": 2, "FrontendSteward": 2}, false},
		"persistence":  {"fn reconnect_to_database() { print(\"reconnected\"); }\n", map[string]int{}, true},
		"beliefs": {"agent QueryMonitor { @persistent check_count: Int slow_query_threshold_ms: Int @persistent alert_count: Int on start { self.check_count += 1; print(\"{self.check_count}/{self.slow_query_threshold_ms}\"); yield(0); } }\n",
			map[string]int{"1/100": 1, "2/100": 1, "3/100": 1, "4/100": 1, "5/100": 1, "6/100": 1}, true},
		"guardian": {"fn check_pool_connections() -> Int { print(\"pool\"); return 3; }\n", nil, true},
		"nested": {failing("QueryMonitor") + worker("PoolMonitor") + worker("RouterAgent") + worker("HandlerPool"),
			map[string]int{"QueryMonitor": 2, "PoolMonitor": 2, "RouterAgent": 1, "HandlerPool": 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../syntax/testdata/page", name+".sg"))
			if err != nil {
				t.Fatal(err)
			}
			program := c.missing + string(text)
			if !strings.Contains(program, "\nrun ") {
				if supervised := map[string]string{"nested": "AppRoot", "one_for_one": "WebApp", "one_for_all": "TightlyCoupled", "rest_for_one": "Pipeline", "beliefs": "AppSupervisor"}[name]; supervised != "" {
					program += "\nrun " + supervised + ";\n"
				} else {
					program += "\nsupervisor Root { strategy: OneForOne children { DatabaseSteward { restart: Permanent } } }\nrun Root;\n"
				}
			}
			p := compile(t, program)
			synctest.Test(t, func(t *testing.T) {
				var out output
				in := p.New(eval.Options{Output: host.NewOutput(&out, io.Discard)})
				defer in.Close()
				spec, err := in.Spec()
				if err != nil {
					t.Fatal(err)
				}
				s, err := supervisor.Launch(t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				s.Stop()
				err = s.Wait()
				var limit *supervisor.LimitError
				if errors.As(err, &limit) != c.limit || err != nil && !c.limit {
					t.Errorf("ended with %v, want a limit: %v", err, c.limit)
				}
				if n := starts(out.String()); len(c.starts) > 0 && !maps.Equal(n, c.starts) {
					t.Errorf("%v, want %v", slices.Sorted(maps.Keys(n)), c.starts)
				}
				if name == "persistence" && strings.Count(out.String(), "reconnected") != 6 {
					t.Errorf("on waking ran %s", out.String())
				}
			})
		})
	}
}

// The guardian example reaches its limit with the numbers that the documentation gives.
func TestGuardian(t *testing.T) {
	text, err := os.ReadFile("../syntax/testdata/page/guardian.sg")
	if err != nil {
		t.Fatal(err)
	}
	var trace output
	b := host.NewMemory()
	_, err = run(t, "fn check_pool_connections() -> Int { return 3; }\n"+string(text),
		eval.Options{Beliefs: b, Trace: &trace, Limit: supervisor.Escalating(10, 30*time.Second)})
	var limit *supervisor.LimitError
	if !errors.As(err, &limit) {
		t.Fatal(err)
	}
	// There are two first starts and ten restarts; the next failure reaches the limit.
	if n := strings.Count(trace.String(), "agent.start"); n != 12 {
		t.Errorf("%d starts, want 12", n)
	}
	// The first child starts first. Which of the two reaches the limit depends on the machine.
	first, _, _ := strings.Cut(trace.String(), "agent.end")
	if !strings.Contains(first, `"message":"Check #1"`) || strings.Contains(first, "PoolMonitor") {
		t.Errorf("%s", trace.String())
	}
}
