package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

// life is the log's account of one incarnation.
type life struct {
	started, ended int
	events         []string
}

// check compares the journals of the agents with the event log. The fleet has
// been stopped, so that both are complete.
func check(o options) error {
	p, err := project.Open(filepath.Join(o.dir, "coppice.toml"))
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
		switch e.Type {
		case event.AgentStarted:
			l.started++
		case event.AgentCrashed, event.AgentExited, event.AgentLost, event.AgentStopped:
			l.ended++
		}
	}
	starts := 0
	for i := range o.agents {
		name, stays := fmt.Sprintf("stay-%d", i), true
		if i < o.crashing {
			name, stays = fmt.Sprintf("crash-%d", i), false
		}
		n, err := checkAgent(o.dir, name, stays, lives["chaos/"+name])
		starts += n
		if err != nil {
			errs = append(errs, err)
		}
	}
	o.say("%d events, %d lives of %d agents checked", events, starts, o.agents)
	if len(errs) > 20 {
		errs = append(errs[:20], fmt.Errorf("and %d more", len(errs)-20))
	}
	return errors.Join(errs...)
}

// checkAgent holds the log to the journal of one agent.
func checkAgent(dir, name string, stays bool, lives map[uint64]*life) (starts int, err error) {
	f, err := os.Open(filepath.Join(dir, name+".journal"))
	if err != nil {
		return 0, fmt.Errorf("%s never ran: %w", name, err)
	}
	defer f.Close()
	var incarnations []uint64
	stopped := false
	for s := bufio.NewScanner(f); s.Scan(); {
		what, rest, _ := strings.Cut(s.Text(), " ")
		number, _, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(number, 10, 64)
		switch {
		case err != nil:
			return 0, fmt.Errorf("%s: journal line %q", name, s.Text())
		case what == "twice":
			return 0, fmt.Errorf("%s ran twice at the same time, incarnation %d", name, n)
		case stopped:
			return 0, fmt.Errorf("%s was stopped before the end, or went on after it: %s", name, s.Text())
		case what == "stop":
			stopped = true
			continue
		case len(incarnations) > 0 && n <= incarnations[len(incarnations)-1]:
			return 0, fmt.Errorf("%s: incarnation %d was started after %d", name, n, incarnations[len(incarnations)-1])
		}
		incarnations = append(incarnations, n)
	}
	if stays && len(incarnations) != 1 {
		return len(incarnations), fmt.Errorf("%s was started %d times, expected once", name, len(incarnations))
	}
	for _, n := range incarnations {
		// the last may be stopped while it starts
		if l := lives[n]; l == nil || l.ended != 1 || l.started != 1 && !(stopped && n == last(incarnations)) {
			return len(incarnations),
				fmt.Errorf("%s: incarnation %d is not started once and ended once in the log:%s", name, n,
					around(lives, n))
		}
	}
	return len(incarnations), nil
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

func last(all []uint64) uint64 { return all[len(all)-1] }
