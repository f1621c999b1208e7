package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/event/feed"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/usage"
)

// explanation is why a node is as it is, as its page shows it.
type explanation struct {
	status.Explanation
	State    string
	Tone     status.Tone
	Since    string
	Facts    []fact
	Claims   []claimed
	Operator bool
}

// fact is a property of a node.
type fact struct{ Name, Text string }

// claimed is what an agent has said of how its work ended.
type claimed struct {
	Text, At    string
	Incarnation uint64
}

// agentData is what the page of a node shows next to its parts.
type agentData struct {
	Path, Grep string
	IsAgent    bool
	Log        template.HTML
	Position   string
	Beliefs    []belief.Belief
	Parents    []crumb
	Terminal   bool
	Crowded    bool // so many terminals are watched that this one is not
}

// crumb is a supervisor above a node.
type crumb struct{ Name, Path string }

// agentPage shows one node.
func (s *pages) agentPage(ctx context.Context, q query) (*page, error) {
	x, err := status.Explain.Call(ctx, s.Client, status.ExplainRequest{Path: q.rest})
	if err != nil {
		return nil, err
	}
	n := x.Node
	d := agentData{Path: n.Path, Grep: q.get("grep"), IsAgent: n.Kind == "agent", Parents: crumbs(n.Path),
		Terminal: n.Terminal}
	p := &page{title: n.Path, nav: "tree", template: "agent"}
	if p.parts, err = s.parts(map[string]any{"explanation": explain(x, q.role)}); err != nil {
		return nil, err
	}
	if d.IsAgent {
		lives, err := s.drawn.get("lives "+n.Path, s.version(q, n.Path), func() (template.HTML, error) {
			lives, err := s.lives(ctx, n)
			if err != nil {
				return "", err
			}
			return s.renderPart("lives", lives)
		})
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, part{id: "lives", html: lives})
		uses, err := s.uses(ctx, n.Path)
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, uses)
		if n.Terminal {
			p.terminal = n.Path
			html := s.terminals.html(n.Path)
			if !q.parts {
				html, d.Crowded = s.screen(ctx, n.Path)
			}
			p.parts = append(p.parts, part{id: "screen", html: html})
		}
		p.follow = &follow{list: "log", items: s.logItems(n.Path, q)}
		if q.parts { // the rest is not kept up to date
			return p, nil
		}
		if d.Log, d.Position, err = s.lines(ctx, logQuery(n.Path, q)); err != nil {
			return nil, err
		}
		d.Beliefs, err = belief.Read.Call(ctx, s.Client, belief.ReadRequest{Path: n.Path})
		if err != nil && !errors.Is(err, api.ErrNotFound) {
			return nil, err
		}
	}
	p.data = d
	return p, nil
}

// uses returns what an agent uses of the machine, as a part of its page.
func (s *pages) uses(ctx context.Context, path string) (part, error) {
	// Without an answer, as of an older daemon, nothing is shown.
	all, _ := usage.Show.Call(ctx, s.Client, usage.ShowRequest{Path: path})
	var facts []fact
	for _, u := range all {
		r := u.Resources()
		facts = []fact{
			{"Memory", of(r.Bytes(), u.MemoryLimit > 0, usage.Resources{Memory: uint64(u.MemoryLimit)}.Bytes())},
			{"Processor", of(r.Processor(), u.CPULimit > 0, usage.Resources{CPU: u.CPULimit}.Processor())},
			{"Processes", of(strconv.Itoa(u.Processes), u.ProcessLimit > 0, strconv.FormatUint(u.ProcessLimit, 10))},
		}
	}
	html, err := s.renderPart("uses", facts)
	return part{id: "uses", html: html}, err
}

// of returns what is used, of a limit if there is one.
func of(used string, limited bool, limit string) string {
	if limited {
		return used + " of " + limit
	}
	return used
}

// screen returns the screen of an agent when it is complete, and whether too many others are watched for that.
func (s *pages) screen(ctx context.Context, path string) (html template.HTML, crowded bool) {
	t, release := s.terminals.watch(path)
	defer release()
	if t == nil {
		return emptyScreen, true
	}
	return t.first(ctx), false
}

// crumbs returns the supervisors above a node, the root first.
func crumbs(path string) (all []crumb) {
	for i := range path {
		if path[i] == '/' {
			above := path[:i]
			all = append(all, crumb{above[strings.LastIndex(above, "/")+1:], above})
		}
	}
	return all
}

// explain returns an explanation as it is shown.
func explain(x status.Explanation, who role) explanation {
	n := x.Node
	e := explanation{Explanation: x, State: n.Shown(), Since: stamp(x.Since()), Operator: who == operator}
	e.Tone = status.ToneOf(e.State)
	x.Node.Uptime = 0 // which would change the page all the time
	add := func(name, format string, args ...any) {
		e.Facts = append(e.Facts, fact{name, fmt.Sprintf(format, args...)})
	}
	add("Kind", "%s", strings.TrimSpace(n.Kind+" "+strings.ReplaceAll(n.Strategy, "_", " ")))
	if n.Incarnation > 0 {
		add("Incarnation", "%d", n.Incarnation)
	}
	if n.PID != 0 {
		add("Process", "%d on %s", n.PID, n.Host)
	}
	if n.Runtime != "" {
		add("Runtime", "%s", n.Runtime)
	}
	if n.Restart != "" {
		add("Restart policy", "%s", n.Restart)
	}
	switch starts := n.Starts(); {
	case starts == "shared":
		add("Limit", "shared: its restarts count for %s", n.LimitOf)
	case starts != "-":
		text := starts
		if n.LimitAction != "" {
			text += ", then " + strings.ReplaceAll(n.LimitAction, "_", " ")
		}
		add("Limit", "%s", text)
	}
	if n.User != "" {
		add("User", "%s", n.User)
	}
	if n.ReadWritePaths != nil {
		add("May write to", "%s", cmp.Or(strings.Join(n.ReadWritePaths, ", "), "nothing"))
	}
	if n.Placement != nil {
		add("Placement", "%s", n.Placement)
	}
	if n.StatusText != "" {
		add("It says", "%s", n.StatusText)
	}
	for _, c := range slices.Backward(x.Claims) {
		text := c.Report.Summary
		if len(e.Claims) == 5 {
			break
		}
		e.Claims = append(e.Claims, claimed{string(c.Report.Kind) + ": " + text, stamp(c.Time), c.Incarnation})
	}
	return e
}

// life is an incarnation of an agent.
type life struct {
	Incarnation   uint64
	Tone          string
	Text          string // how long it was, how it ended, and the rule that was applied
	X, Y, Height  int    // of its bar
	began, ended  time.Time
	end, decision string
}

// lifeline is the last incarnations of an agent.
type lifeline struct {
	Lives         []life
	Width, Height int
}

const (
	maxLives   = 60
	lifeWidth  = 10 // of a bar, with the space after it
	lifeHeight = 40
)

// lives returns the last incarnations of an agent, oldest first.
func (s *pages) lives(ctx context.Context, n status.Node) (lifeline, error) {
	lives := map[uint64]*life{}
	for e, err := range feed.Events(ctx, s.Client, event.Query{
		Filter: event.Filter{Path: n.Path, Types: []string{"agent.*"}}, Last: 10 * maxLives,
	}) {
		if err != nil {
			return lifeline{}, err
		}
		if e.Incarnation == 0 || e.Path != n.Path {
			continue
		}
		l := lives[e.Incarnation]
		if l == nil {
			l = &life{Incarnation: e.Incarnation, Tone: "quiet"}
			lives[e.Incarnation] = l
		}
		l.note(e)
	}
	all := make([]life, 0, len(lives))
	for _, l := range lives {
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b life) int { return cmp.Compare(a.Incarnation, b.Incarnation) })
	all = all[max(0, len(all)-maxLives):]
	for i := range all {
		all[i].draw(i, n)
	}
	return lifeline{all, len(all) * lifeWidth, lifeHeight}, nil
}

// note adds what an event says of an incarnation.
func (l *life) note(e event.Event) {
	switch e.Type {
	case event.AgentStarted, event.AgentAdopted:
		if l.began.IsZero() {
			l.began = e.Time
		}
	case event.AgentExited, event.AgentStopped:
		l.ended, l.Tone, l.end = e.Time, "good", e.Text()
	case event.AgentCrashed, event.AgentStartFailed, event.AgentLost, event.AgentAbandoned:
		l.ended, l.Tone, l.end = e.Time, "bad", e.Text()
	case event.AgentWaiting:
		l.ended, l.Tone, l.end = e.Time, "busy", e.Text()
	case event.AgentQuarantined, event.AgentGaveUp, event.AgentLimitReached:
		l.decision = e.Text()
	}
}

// draw sets the place of the bar of an incarnation, and its text. The height grows with the logarithm of the time
// that it has lived: 1 s is low, a week is high.
func (l *life) draw(index int, n status.Node) {
	lived := time.Duration(0)
	runs := l.ended.IsZero()
	if runs {
		l.Tone = map[bool]string{true: "runs", false: "quiet"}[l.Incarnation == n.Incarnation && n.PID != 0]
	}
	if !l.began.IsZero() && !runs {
		lived = l.ended.Sub(l.began)
	}
	part := math.Log1p(lived.Seconds()) / math.Log1p((7 * 24 * time.Hour).Seconds())
	if runs {
		part = 1
	}
	l.Height = 6 + int(min(1, max(0, part))*(lifeHeight-6))
	l.X, l.Y = index*lifeWidth, lifeHeight-l.Height
	text := []string{fmt.Sprintf("Incarnation %d", l.Incarnation)}
	text = append(text, cmp.Or(l.end, map[string]string{"runs": "runs"}[l.Tone], "its end is not in the log"))
	if l.decision != "" {
		text = append(text, l.decision)
	}
	l.Text = strings.Join(text, "; ")
}
