package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/internal/runtime/slots"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// life is the log's account of one incarnation.
type life struct {
	started, ended int
	stopping, lost bool // it was to stop; its shim was killed
	unstarted      bool // its shim was killed while it started
	events         []string
}

// check compares the journals of the agents with the event log, with their output, and with what was killed. The
// fleet has been stopped, so that all are complete.
func check(o trial.Options, k *killer) error {
	p, err := project.Open(filepath.Join(o.Dir, "coppice.toml"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db, err := sqlite.Open(ctx, p.Database())
	if err != nil {
		return err
	}
	defer db.Close()
	log, err := event.Open(event.Config{Store: db, Writer: "check"})
	if err != nil {
		return err
	}
	defer log.Close(ctx)
	all, _, err := log.Read(ctx, 0, event.Filter{}, 0)
	if err != nil {
		return fmt.Errorf("reading the events: %w", err)
	}
	lives := map[string]map[uint64]*life{} // by path and incarnation
	var last uint64
	var errs []error
	events := 0
	for _, e := range all {
		events++
		if e.Seq != last+1 {
			errs = append(errs, fmt.Errorf("event %d comes after %d", e.Seq, last))
		}
		last = e.Seq
		if e.Incarnation == 0 {
			continue
		}
		of := lives[e.Path]
		if of == nil {
			of = map[uint64]*life{}
			lives[e.Path] = of
		}
		l := of[e.Incarnation]
		if l == nil {
			l = &life{}
			of[e.Incarnation] = l
		}
		l.events = append(l.events, fmt.Sprintf("%d %s %s", e.Seq, e.Type, e.Message))
		l.lost = l.lost || e.Type == event.AgentLost
		switch e.Type {
		case event.AgentStarted:
			l.started++
		case event.AgentStopping:
			l.stopping = true
		case event.AgentStartFailed:
			if strings.Contains(e.Message, wire.ErrShimEnded.Error()) ||
				strings.Contains(e.Message, "starting a shim (ended by SIGKILL") {
				l.unstarted, l.lost = true, true
				l.ended++
			}
		case event.AgentCrashed, event.AgentExited, event.AgentLost, event.AgentStopped:
			l.ended++
		}
	}
	starts := 0
	for i := range o.Agents {
		name := fmt.Sprintf("stay-%d", i)
		if i < o.Crashing {
			name = fmt.Sprintf("crash-%d", i)
		}
		found, stopped, err := readLives(o.Dir, name)
		starts += len(found)
		errs = append(errs, err, checkAgent(name, found, lives["chaos/"+name]),
			checkOutput(p, name, found, stopped, lives["chaos/"+name]))
		if i >= o.Crashing {
			errs = append(errs, checkRestarts(name, found, lives["chaos/"+name], k.hits[name]))
		}
	}
	errs = append(errs, checkProgram(p, o, lives, k)...)
	o.Say("%d events, %d lives of %d agents checked", events, starts, o.Agents)
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) > 20 {
		errs = append(errs[:20], fmt.Errorf("and %d more", len(errs)-20))
	}
	return errors.Join(errs...)
}

// checkAgent holds the log to the journal of one agent.
func checkAgent(name string, found []agentLife, lives map[uint64]*life) error {
	if len(found) == 0 {
		return fmt.Errorf("%s never ran", name)
	}
	for i, f := range found {
		// the last may be stopped while it starts
		l := lives[f.incarnation]
		if l == nil || l.ended != 1 || l.started != 1 && !l.unstarted && !(l.stopping && i == len(found)-1) {
			return fmt.Errorf("%s: incarnation %d is not started once and ended once in the log:%s", name,
				f.incarnation, around(lives, f.incarnation))
		}
	}
	return nil
}

// checkRestarts checks that an agent that does not crash was restarted once for each time that it was killed. It may
// have been killed before it could write its journal.
func checkRestarts(name string, found []agentLife, lives map[uint64]*life, hits map[int]bool) error {
	for i, f := range found {
		if hits[f.pid] != (i < len(found)-1) {
			return fmt.Errorf("%s: incarnation %d of %d was killed: %v:%s", name, f.incarnation, len(found),
				hits[f.pid], around(lives, f.incarnation))
		}
	}
	unstarted := 0 // whether they had a process by then is not known
	for _, l := range lives {
		if l.unstarted {
			unstarted++
		}
	}
	if more := len(lives) - len(hits) - 1; more < 0 || more > unstarted {
		return fmt.Errorf("%s was killed %d times, and has %d lives:%s", name, len(hits), len(lives), around(lives, 2))
	}
	return nil
}

// checkOutput looks for the lines of all lives in the output of an agent. What a life wrote just before its shim was
// killed may be missing, also if it ended before and only the shim knew.
func checkOutput(
	p project.Project, name string, found []agentLife, stopped bool, lives map[uint64]*life,
) error {
	file, err := slots.LogFile(p.Slots(), "chaos/"+name)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for i, f := range found {
		for _, what := range []string{"start", "stop"} {
			n := strings.Count("\n"+string(text), fmt.Sprintf("\n%s %d\n", what, f.incarnation))
			expected := 1
			if what == "stop" && !(stopped && i == len(found)-1) {
				expected = 0
			}
			l := lives[f.incarnation]
			if n != expected && !(n < expected && l != nil && l.lost) {
				return fmt.Errorf("%s: %d lines say \"%s %d\", expected %d", name, n, what, f.incarnation, expected)
			}
		}
	}
	return nil
}

// around returns the log's account of an incarnation and its neighbours.
func around(lives map[uint64]*life, n uint64) string {
	var b strings.Builder
	for i := n - 1; i <= n+1; i++ {
		if l := lives[i]; l != nil {
			b.WriteString("\n    " + strings.Join(l.events, "\n    "))
		}
	}
	return b.String()
}
