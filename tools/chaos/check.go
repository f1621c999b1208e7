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

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
)

// life is what the log says of one incarnation.
type life struct{ started, ended int }

// check compares the journals of the agents with the event log.
func check(o options, client *api.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lives := map[string]map[uint64]*life{} // by path and incarnation
	var last uint64
	var errs []error
	events := 0
	for e, err := range client.Events(ctx, 0, event.Filter{}, false) {
		if err != nil {
			return fmt.Errorf("reading the events: %w", err)
		}
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
	for s := bufio.NewScanner(f); s.Scan(); {
		what, rest, _ := strings.Cut(s.Text(), " ")
		number, _, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: journal line %q", name, s.Text())
		}
		switch what {
		case "twice":
			return 0, fmt.Errorf("%s ran twice at the same time, incarnation %d", name, n)
		case "stop":
			return 0, fmt.Errorf("%s was stopped, incarnation %d", name, n)
		}
		incarnations = append(incarnations, n)
	}
	if stays && len(incarnations) != 1 {
		return len(incarnations), fmt.Errorf("%s was started %d times, expected once", name, len(incarnations))
	}
	for i, n := range incarnations {
		l := lives[n]
		switch {
		case i > 0 && n <= incarnations[i-1]:
			return len(incarnations), fmt.Errorf("%s: incarnation %d was started after %d", name, n, incarnations[i-1])
		case l == nil:
			if i == len(incarnations)-1 { // just now
				continue
			}
			return len(incarnations), fmt.Errorf("%s: incarnation %d is not in the log", name, n)
		case l.started != 1 && i < len(incarnations)-1:
			return len(incarnations), fmt.Errorf("%s: incarnation %d was started %d times by the log", name, n, l.started)
		case i < len(incarnations)-1 && l.ended != 1:
			return len(incarnations), fmt.Errorf("%s: incarnation %d ended %d times by the log, expected once", name, n, l.ended)
		}
	}
	return len(incarnations), nil
}
