package fakeagent

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/timespan"
)

// Plan says what the calls of a run play. It is a pure function of the time since the start of the run, the agent
// and the number of its call, so all calls of a run see the same account, and a run can be repeated.
type Plan struct {
	Items []Item
	// Seed draws the calls of items with a share. SeedSet says that the plan names it.
	Seed    uint64
	SeedSet bool
	// Pace is how long a call takes that ends well.
	Pace time.Duration
}

// Item is a scenario, and when it is played.
type Item struct {
	Agent    string // components of a path that are next to each other, such as night/coder; empty for all agents
	Scenario Scenario
	Percent  int           // of the calls; 0 means all of them
	From     time.Duration // since the start of the run
	For      time.Duration // how long; 0 means to the end of the run, for a quota DefaultReset
}

// Defaults and bounds of a plan.
const (
	DefaultPace = 1500 * time.Millisecond
	// DefaultReset is how long a quota is used up if the plan does not say so.
	DefaultReset = 5 * time.Hour

	maxSpec  = 4096
	maxItems = 64
	maxPace  = 10 * time.Minute
	maxTime  = 30 * timespan.Day
)

// Grammar describes a plan, for help texts and errors.
const Grammar = "[AGENT:]SCENARIO[%PERCENT][@FROM][+FOR], seed=NUMBER or pace=DURATION, joined by commas"

// Parse parses a plan, such as "quota@10m+30m,night/coder:crash%10,seed=7".
func Parse(text string) (Plan, error) {
	p := Plan{Pace: DefaultPace}
	if len(text) > maxSpec {
		return p, fmt.Errorf("the plan has %d bytes, expected at most %d", len(text), maxSpec)
	}
	if strings.TrimSpace(text) == "" {
		return p, fmt.Errorf("the plan is empty, expected %s", Grammar)
	}
	parts := strings.Split(text, ",")
	if len(parts) > maxItems {
		return p, fmt.Errorf("the plan has %d parts, expected at most %d", len(parts), maxItems)
	}
	paced := false
	for n, part := range parts {
		part = strings.TrimSpace(part)
		wrong := func(err error) (Plan, error) {
			return p, fmt.Errorf("part %d of the plan, %.80q: %w", n+1, part, err)
		}
		name, value, setting := strings.Cut(part, "=")
		switch {
		case part == "":
			return wrong(fmt.Errorf("it is empty, expected %s", Grammar))
		case setting && name == "seed" && !p.SeedSet:
			seed, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return wrong(fmt.Errorf("the seed is %.40q, expected a whole number from 0 up", value))
			}
			p.Seed, p.SeedSet = seed, true
		case setting && name == "pace" && !paced:
			d, err := span(value, "pace=", maxPace)
			if err != nil {
				return wrong(err)
			}
			p.Pace, paced = d, true
		case setting && (name == "seed" || name == "pace"):
			return wrong(fmt.Errorf("%s is given twice", name))
		case setting:
			return wrong(fmt.Errorf("unknown setting %.40q, expected seed or pace", name))
		default:
			item, err := parseItem(part)
			if err != nil {
				return wrong(err)
			}
			p.Items = append(p.Items, item)
		}
	}
	return p, nil
}

// parseItem parses [AGENT:]SCENARIO[%PERCENT][@FROM][+FOR].
func parseItem(text string) (i Item, err error) {
	rest := text
	if agent, after, ok := strings.Cut(text, ":"); ok {
		if i.Agent, rest = agent, after; !isPath(agent) {
			return i, fmt.Errorf("the agent is %.60q, expected a name or path such as coder or night/coder", agent)
		}
	}
	end := strings.IndexAny(rest, "%@+")
	if end < 0 {
		end = len(rest)
	}
	if i.Scenario, err = parseScenario(rest[:end]); err != nil {
		return i, err
	}
	order := "%@+"
	for rest = rest[end:]; rest != ""; {
		mark := rest[:1]
		at := strings.Index(order, mark)
		if at < 0 {
			return i, fmt.Errorf("%q is twice or too late, expected SCENARIO[%%PERCENT][@FROM][+FOR]", mark)
		}
		order = order[at+1:]
		value := rest[1:]
		if end := strings.IndexAny(value, "%@+"); end >= 0 {
			value = value[:end]
		}
		rest = rest[1+len(value):]
		switch mark {
		case "%":
			if i.Percent, err = strconv.Atoi(value); err != nil || i.Percent < 1 || i.Percent > 100 {
				return i, fmt.Errorf("after %q comes %.40q, expected a whole number from 1 to 100", mark, value)
			}
		case "@":
			i.From, err = span(value, mark, maxTime)
		case "+":
			if i.For, err = span(value, mark, maxTime); err == nil && i.For == 0 {
				err = errors.New(`after "+" comes a time of 0, expected a longer one`)
			}
		}
		if err != nil {
			return i, err
		}
	}
	return i, nil
}

// isPath reports whether text is a name or components of a path.
func isPath(text string) bool {
	for part := range strings.SplitSeq(text, "/") {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return false
		}
	}
	return true
}

func span(text, after string, most time.Duration) (time.Duration, error) {
	d, err := timespan.Parse(text)
	if err != nil || d < 0 || d > most {
		return 0, fmt.Errorf("after %q comes %.40q, expected a duration from 0s to %v, such as 90s or 10m",
			after, text, most)
	}
	return d, nil
}

// String returns the plan as Parse parses it.
func (p Plan) String() string {
	var parts []string
	for _, i := range p.Items {
		parts = append(parts, i.String())
	}
	if p.SeedSet {
		parts = append(parts, fmt.Sprintf("seed=%d", p.Seed))
	}
	if p.Pace != DefaultPace {
		parts = append(parts, fmt.Sprintf("pace=%v", p.Pace))
	}
	return strings.Join(parts, ",")
}

// String returns the item as Parse parses it.
func (i Item) String() string {
	text := string(i.Scenario)
	if i.Agent != "" {
		text = i.Agent + ":" + text
	}
	if i.Percent > 0 {
		text += fmt.Sprintf("%%%d", i.Percent)
	}
	if i.From > 0 {
		text += fmt.Sprintf("@%v", i.From)
	}
	if i.For > 0 {
		text += fmt.Sprintf("+%v", i.For)
	}
	return text
}

// Of reports whether the item is for an agent.
func (i Item) Of(path string) bool {
	return i.Agent == "" || strings.Contains("/"+path+"/", "/"+i.Agent+"/")
}

// Until returns when the item ends, since the start of the run; 0 if it does not.
func (i Item) Until() time.Duration {
	length := i.For
	if length == 0 && (i.Scenario == Quota || i.Scenario == UsedUp) {
		length = DefaultReset
	}
	if length == 0 {
		return 0
	}
	return i.From + length
}

// At returns what the call of an agent with a number plays at a time since the start of the run: the first item
// that applies, or an Item of OK.
func (p Plan) At(since time.Duration, agent string, call uint64) Item {
	for n, i := range p.Items {
		if i.Of(agent) && since >= i.From && (i.Until() == 0 || since < i.Until()) &&
			(i.Percent == 0 || p.draw(n, agent, call) < i.Percent) {
			return i
		}
	}
	return Item{Scenario: OK}
}

// draw returns a number from 0 to 99 for an item and a call.
func (p Plan) draw(item int, agent string, call uint64) int {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %d %s", p.Seed, item, call, agent)
	// The last bits of FNV depend on few bits of the input: mix them, as splitmix64 does.
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % 100)
}
