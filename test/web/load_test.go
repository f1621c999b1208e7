package web

import (
	"flag"
	"fmt"
	"testing"
)

var agents = flag.Int("agents", 50, "the number of agents of TestManyAgents; from 1,000 on it fails if a task takes over 50 ms")

// A page that shows many agents is kept up to date while some of them restart all the time, about four times a second
// in sum, and the browser never stops for long.
func TestManyAgents(t *testing.T) {
	const restarting, lives = 10, 5
	toml := []string{"[daemon]\nmax_restarts = 100000\n"}
	for i := range *agents {
		script := "exec sleep 100000"
		if i < restarting {
			script = "sleep 2.5; exit 1"
		}
		toml = append(toml, agent(fmt.Sprintf("agent-%04d", i), script, `backoff = "none"`))
	}
	s := newFleet(t, toml...).web()
	b := newTab(t)
	b.size(1280, 800)
	b.signIn(s)
	b.live(s.base + "/tree")
	eval[bool](b, `window.tasks = [0]; new PerformanceObserver(list => {
		for (const entry of list.getEntries()) window.tasks.push(entry.duration);
	}).observe({type: "longtask"}); true`)
	for i := range restarting {
		row := fmt.Sprintf(`document.getElementById("n-shop%%2Fagent-%04d")`, i)
		b.await(fmt.Sprintf(`+%s.cells[3].querySelector("small").textContent.slice(1) > %d`, row, lives))
	}
	if rows := eval[int](b, `document.getElementById("rows").childElementCount`); rows != *agents+1 {
		t.Errorf("%d rows", rows)
	}
	longest := eval[float64](b, "Math.max(...window.tasks)")
	t.Logf("%d agents: the longest task of more than 50 ms took %.0f ms (0: there was none)", *agents, longest)
	if *agents >= 1000 && longest > 0 {
		t.Errorf("a task has taken %.0f ms", longest)
	}
}
