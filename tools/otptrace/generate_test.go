package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator writes random scripts. Intensity counts all restarts of a script,
// because every period is an hour: no clock is involved but for shutdown times.
type generator struct {
	*rand.Rand
	strategy, auto string
	ids            []string
	wide           bool // everything that the language has, not only the common
	endless        bool // no limit ends a restart loop
	lines          []string
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func (g *generator) chance(p float64) bool { return g.Float64() < p }

func (g *generator) line(format string, args ...any) {
	g.lines = append(g.lines, fmt.Sprintf(format, args...))
}

func (g *generator) simple() bool { return g.strategy == "simple_one_for_one" }

// generate returns a script, common or wide.
func generate(r *rand.Rand) string {
	g := &generator{Rand: r, ids: strings.Split("abcde", ""), wide: r.IntN(2) == 0}
	if g.wide {
		g.ids = append(g.ids, "f", "g", "h", "'Ö 1'", "B", "end")[:3+r.IntN(9)]
		for i, id := range g.ids {
			g.ids[i] = strings.ReplaceAll(id, " ", "_")
		}
	}
	g.script()
	return strings.Join(g.lines, "\n")
}

func (g *generator) script() {
	g.strategy = pick(g.Rand, "one_for_one", "one_for_all", "rest_for_one", "simple_one_for_one")
	g.auto = pick(g.Rand, "never", "never", "any_significant", "all_significant")
	if g.simple() && !g.wide {
		g.auto = "never"
	}
	g.header()
	steps := 4 + g.IntN(11)
	if g.wide {
		steps += g.IntN(30)
	}
	for range steps {
		g.step()
	}
	g.line("which")
	if g.wide {
		g.line("count")
	}
	g.line("stop")
}

// header is the lines up to start; one in twelve wide ones has a fault.
func (g *generator) header() {
	strategy, intensity, period, auto := g.strategy, fmt.Sprint(g.IntN(7)), "3600", g.auto
	faulty := g.wide && g.IntN(12) == 0
	if g.wide && g.IntN(3) == 0 {
		intensity = pick(g.Rand, "12", "100", "100000000000000000000")
		g.endless = len(intensity) > 2
	}
	if faulty {
		for range 1 + g.IntN(2) {
			switch g.IntN(5) {
			case 0:
				strategy = g.rubbish()
			case 1:
				intensity = pick(g.Rand, "-1", "1.5", g.rubbish())
			case 2:
				period = pick(g.Rand, "0", "-1", "infinity", g.rubbish())
			case 3:
				auto = g.rubbish()
			}
		}
	}
	g.line("sup %s %s %s %s", strategy, intensity, period, auto)
	switch {
	case strategy == "simple_one_for_one" && faulty && g.IntN(4) == 0:
	case g.simple():
		g.line("child %s", g.spec("x", faulty))
	default:
		n := g.IntN(5)
		if g.wide {
			n = g.IntN(len(g.ids) + 1)
		}
		for _, id := range g.ids[:n] {
			if faulty && g.IntN(6) == 0 {
				id = g.ids[0]
			}
			g.line("child %s", g.spec(id, faulty))
		}
	}
	g.line("start")
}

func (g *generator) step() {
	id := g.ids[g.IntN(len(g.ids))]
	ops := []string{"exit", "exit", "exit", "exit", "exit", "exit", "exit", "exit",
		"terminate", "terminate", "terminate", "restart", "restart", "restart", "delete", "delete",
		"add", "add", "add", "which", "count"}
	if g.wide {
		ops = append(ops, "spec", "which", "add", "exit", "exit")
	}
	switch op := pick(g.Rand, ops...); op {
	case "exit":
		reason := pick(g.Rand, "crash", "crash", "crash", "normal", "shutdown", "{shutdown,x}", "kill")
		if g.wide && g.IntN(3) == 0 {
			reason = g.reason()
		}
		g.line("exit %s %s", id, reason)
	case "add":
		g.add(id)
	case "which", "count":
		g.line("%s", op)
	default:
		g.line("%s %s", op, id)
	}
}

func (g *generator) add(id string) {
	form := g.simple()
	if g.wide && g.IntN(25) == 0 {
		form = !form
	}
	if form {
		g.line("add %s", id)
	} else {
		g.line("add %s", g.spec(id, g.wide && g.IntN(10) == 0))
	}
}

func (g *generator) spec(id string, faulty bool) string {
	restart := pick(g.Rand, "permanent", "permanent", "transient", "temporary")
	significant := "false"
	if g.auto != "never" && restart != "permanent" && g.chance(.5) {
		significant = "true"
	}
	starts := "ok"
	if g.chance(.43) {
		starts = pick(g.Rand, "ok,error,ok", "ok,error,error,ok", "ok,ignore,ok", "ignore,ok", "ok,throw,ok", "error,ok")
	}
	if g.wide && g.chance(.2) {
		outcomes := make([]string, 2+g.IntN(6))
		for i := range outcomes {
			outcomes[i] = pick(g.Rand, "ok", "ok", "ok", "error", "throw", "ignore")
		}
		if g.endless {
			outcomes = append(outcomes, "ok")
		}
		starts = strings.Join(outcomes, ",")
	}
	if g.simple() { // OTP 25 crashes when the restart of an instance is ignored
		starts = pick(g.Rand, "ok", "ok", "ok,error,ok")
		if g.wide {
			starts = pick(g.Rand, starts, "error,ok", "throw,ok,throw,ok", "ignore,ok", "ignore,ignore,error,ok", "ok,ok,error,error,ok")
		}
	}
	stop := "obey"
	if g.chance(.27) {
		stop = pick(g.Rand, "normal", "other", "hang")
	}
	shutdown := pick(g.Rand, "100", "100", "brutal_kill")
	if stop == "hang" {
		shutdown = pick(g.Rand, "30", "brutal_kill")
	} else if g.wide {
		shutdown = pick(g.Rand, shutdown, "infinity", "5000", "0")
		if g.chance(.05) {
			stop, shutdown = pick(g.Rand, "linger:30", "linger:0", "linger:80"), pick(g.Rand, "infinity", "1000", "50")
		}
	}
	kind := pick(g.Rand, "worker", "worker", "worker", "supervisor")
	if faulty {
		switch g.IntN(5) {
		case 0:
			restart = g.rubbish()
		case 1:
			shutdown = pick(g.Rand, "-1", "1.0", g.rubbish())
		case 2:
			kind = g.rubbish()
		case 3:
			significant = g.rubbish()
		case 4:
			significant = "true"
		}
	}
	return strings.Join([]string{id, restart, shutdown, significant, kind, starts, stop}, " ")
}

// reason is an exit reason that is out of the ordinary.
func (g *generator) reason() string {
	return pick(g.Rand, "killed", "noproc", "{shutdown,{a,[1,2]}}", "{shutdown}", "{shutdown,a,b}", "[shutdown]", "'shutdown'",
		"'normal'", "{normal,x}", "42", "-7", "\"text\"", "{bad,[$a,'B\\sc'|d]}", "[]", "{}", "16#ff", "'Shutdown'", "1.5e300", "''")
}

// rubbish is a term that is legal nowhere in a specification.
func (g *generator) rubbish() string {
	return pick(g.Rand, "foo", "-10", "1.5", "{permanent,1}", "[]", "\"never\"", "'Never'", "[one_for_one]", "{}", "'end'")
}
