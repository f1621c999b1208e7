package test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/output"
)

// logs -f follows several agents and a supervisor. Across restarts, log rotation and a crash of the
// daemon, each line appears once. Later, logs shows the same, with and without a daemon.
func TestLogsOfAFleet(t *testing.T) {
	t.Parallel()
	f := newFleet(t,
		"[[supervisor]]\nname = \"garden\"\nchildren = [\"rose\", \"weed\"]\n",
		"[logs]\nmax_size = \"1KiB\"\nkeep = 40\n",
		agentTOML("rose", `while [ ! -e go ]; do sleep 0.02; done
for i in 1 2 3 4 5 6 7 8 9; do
	for j in 1 2 3 4 5 6 7 8 9; do echo "rose $COPPICE_INCARNATION.$i$j"; done
	if [ $i = 5 ]; then sleep 0.05; fi
done
printf "rose $COPPICE_INCARNATION is done"
if [ $COPPICE_INCARNATION -le 5 ]; then exit 3; fi
while [ ! -e gone ]; do sleep 0.02; done
echo; echo "rose goes on"
exec sleep 1000`, `restart_window = "1h"`, `max_restarts = 50`),
		agentTOML("weed", `echo "weed is up"; exec sleep 1000`),
		agentTOML("late", `while [ ! -e gone ]; do sleep 0.02; done; echo "late is up"; exec sleep 1000`))
	f.up()
	r := launch(t, f.dir, "logs", "-f", "garden", "late")
	r.out.awaitText(t, "t/garden/weed | weed is up\n")
	f.replaceFile("go", "")
	r.out.awaitText(t, "t/garden/rose | rose 6.99\n")
	f.crash()
	f.replaceFile("gone", "")
	f.up()
	r.out.awaitText(t, "t/garden/rose | rose goes on\n")
	r.out.awaitText(t, "t/late        | late is up\n")
	r.signal(syscall.SIGINT)
	r.wantExit(130)

	want := []string{"t/weed | weed is up", "t/rose | rose goes on", "t/late | late is up"}
	for n := 1; n <= 6; n++ {
		for i := 1; i <= 9; i++ {
			for j := 1; j <= 9; j++ {
				want = append(want, fmt.Sprintf("t/rose | rose %d.%d%d", n, i, j))
			}
		}
		want = append(want, fmt.Sprintf("t/rose | rose %d is done", n))
	}
	check := func(what, out string) {
		t.Helper()
		times := make(map[string]int)
		for line := range strings.Lines(strings.ReplaceAll(out, "t/garden/", "t/")) {
			times[strings.Join(strings.Fields(line), " ")]++
		}
		for _, line := range want {
			if times[line] != 1 {
				t.Errorf("%s: %q is there %d times", what, line, times[line])
			}
		}
		for n := 1; n <= 5; n++ {
			between := regexp.MustCompile(fmt.Sprintf(`(?m)^--- t/garden/rose: incarnation %d ended [\d: -]+: exit code 3(; incarnation %d started [\d: -]+)? ---$`, n, n+1))
			if got := between.FindAllString(out, -1); len(got) != 1 {
				t.Errorf("%s: between incarnations %d and %d there is %q", what, n, n+1, got)
			}
		}
		if strings.Index(out, "rose 1.99") > strings.Index(out, "rose 2.11") {
			t.Errorf("%s: not in order", what)
		}
	}
	check("followed", r.out.String())
	for _, when := range []string{"with a daemon", "without one"} {
		out, _ := coppice(t, f.dir, 0, "logs", "-n", "1000")
		check(when, out)
		if out, _ = coppice(t, f.dir, 0, "logs", "garden", "late", "-n", "1"); out !=
			"t/garden/weed | weed is up\nt/garden/rose | rose goes on\nt/late        | late is up\n" &&
			out != "t/garden/weed | weed is up\nt/late        | late is up\nt/garden/rose | rose goes on\n" {
			t.Errorf("%s, one line of each:\n%s", when, out)
		}
		out, _ = coppice(t, f.dir, 0, "logs", "rose", "--grep", `rose [35]\.1[1-2]$`)
		if out != "rose 3.11\nrose 3.12\nrose 5.11\nrose 5.12\n" {
			t.Errorf("%s, lines that match:\n%s", when, out)
		}
		out, _ = coppice(t, f.dir, 0, "logs", "rose", "-t", "-n", "1", "--since", "1h", "--grep", ".")
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\S* rose goes on\n$`).MatchString(out) {
			t.Errorf("%s, with its time: %q", when, out)
		}
		out, _ = coppice(t, f.dir, 0, "logs", "garden", "--json", "--grep", `4\.77`)
		var line output.Line
		if err := json.Unmarshal([]byte(out), &line); err != nil || line.Path != "t/garden/rose" || line.Incarnation != 4 ||
			line.Time.IsZero() || line.Line != "rose 4.77" || line.Position != "" {
			t.Errorf("%s: %q, %v", when, out, err)
		}
		if when == "with a daemon" {
			f.do("down")
		}
	}
	if out, _ := coppice(t, f.dir, 0, "logs", "rose", "--since", "2999-01-01"); out != "" {
		t.Errorf("of the future: %q", out)
	}
}
