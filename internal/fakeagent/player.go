package fakeagent

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// dialect is the way in which a command line reports.
type dialect interface {
	// open finds the session to continue, or begins a new one. It returns an exit code and false if there is no such
	// session.
	open() (code int, ok bool)
	begin()
	// tool reports a call of a tool, with its result. It uses the tokens of a message.
	tool(c toolCall)
	// answer reports the answer of the model. It uses the tokens of a message.
	answer(text string)
	// retry reports that a call of the model has failed and is repeated.
	retry(f fault, attempt int)
	// fail ends with a failure, and returns the exit code.
	fail(f fault) int
	// lie ends with a success that is none, and returns the exit code.
	lie(text string) int
	// succeed ends with a success, and returns the exit code.
	succeed(text string) int
}

// toolCall is a call of a tool by the model.
type toolCall struct{ id, command, output string }

// fault is a failure that a server reports.
type fault struct {
	scenario Scenario
	reset    time.Time // of a quota
}

// Tokens of a message, as they were recorded. Each of them counts as MessageTokens.
const (
	freshInput  = 1009 // neither read from a cache nor written to one
	cacheWrite  = 103
	cacheRead   = 211
	outputCount = 53
	reasoning   = 7 // part of outputCount
	allInput    = freshInput + cacheWrite + cacheRead

	// MessageTokens is what a message of each fake counts.
	MessageTokens = freshInput + cacheWrite + outputCount
)

// player plays a call.
type player struct {
	output
	request
	speaks  dialect
	cli     agentcli.CLI
	version string
	item    Item
	set     Setting
	prompt  string
	cwd     string
	env     func(string) string
	id      string // of the session
	calls   int    // messages in this run
	earlier int    // messages in earlier runs of the session

	mu    sync.Mutex // held while something is written
	spawn func() error
}

// play plays the call, and returns its exit code.
func (p *player) play() int {
	if code, ok := p.locked(p.speaks.open); !ok {
		return code
	}
	pace := p.set.Plan.Pace
	p.locked(func() (int, bool) { p.speaks.begin(); return 0, true })
	switch p.item.Scenario {
	case OK, Liar, Unusable, Wide, Block:
		p.wait(pace / 2)
	case Hang, Refused:
	case Tool, Split:
		p.wait(pace / 2)
		p.useTool(1)
	case Commit:
		p.wait(pace / 2)
		p.useTool(1)
		if err := commit(p.cwd, p.cli); err != nil {
			p.say(fmt.Sprintf("fake %s: nothing is committed: %v", p.cli, err))
		}
	case Orphan:
		p.wait(pace / 2)
		p.useTool(1)
		if err := p.spawn(); err != nil {
			p.say(fmt.Sprintf("fake %s: cannot leave a process behind: %v", p.cli, err))
			return 1
		}
	case Loop:
		for n := 1; ; n++ {
			p.wait(max(pace/4, 20*time.Millisecond))
			p.useTool(n)
		}
	case Silent:
		p.wait(forever)
	case Crash:
		p.wait(pace / 2)
		p.useTool(1)
		p.say("fatal: out of memory")
		return 1
	}
	return p.end(pace)
}

// end plays the end of a call.
func (p *player) end(pace time.Duration) int {
	f := fault{scenario: p.item.Scenario}
	if f.scenario == Quota {
		f.reset = roundUp(p.set.Start.Add(p.item.Until()), time.Second)
	}
	again := attempts(p.cli, f.scenario)
	for n := 1; n <= again; n++ {
		p.wait(pace / time.Duration(again+1))
		p.locked(func() (int, bool) { p.speaks.retry(f, n); return 0, true })
	}
	p.wait(pace / 2)
	text := p.text()
	code, _ := p.locked(func() (int, bool) {
		switch f.scenario {
		case Quota, QuotaNoReset, Auth, Money, Context, Overloaded, Refused:
			return p.speaks.fail(f), true
		case Liar:
			return p.speaks.lie(text), true
		}
		if err := p.change(); err != nil {
			p.say(fmt.Sprintf("fake %s: nothing is changed: %v", p.cli, err))
		}
		p.speaks.answer(text)
		return p.speaks.succeed(text), true
	})
	if f.scenario == Hang {
		p.wait(forever)
	}
	return code
}

// roundUp returns a time that is not before another: who comes then is served.
func roundUp(t time.Time, to time.Duration) time.Time {
	if down := t.Truncate(to); down.Before(t) {
		return down.Add(to)
	}
	return t
}

// attempts returns how often a command line repeats a call before it reports a failure, or before it goes well.
func attempts(cli agentcli.CLI, s Scenario) int {
	measured := map[Scenario]map[agentcli.CLI]int{
		Rate: {agentcli.Claude: 1, agentcli.Codex: 1, agentcli.Gemini: 1, agentcli.Opencode: 1, agentcli.Copilot: 1},
		Auth: {agentcli.Claude: 10, agentcli.Codex: 5, agentcli.Copilot: 3},
		Overloaded: {
			agentcli.Claude: 2, agentcli.Gemini: 9, agentcli.Opencode: 8, agentcli.Copilot: 6,
		},
		Quota:   {agentcli.Opencode: 8, agentcli.Copilot: 6},
		Money:   {agentcli.Opencode: 8, agentcli.Copilot: 6},
		Context: {agentcli.Copilot: 1},
	}
	return measured[s][cli]
}

// forever is longer than any run.
const forever = 100 * 365 * 24 * time.Hour

// wait waits while a signal may end the call.
func (p *player) wait(d time.Duration) { <-time.After(d) }

// locked calls do while no signal ends the call.
func (p *player) locked(do func() (int, bool)) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return do()
}

// hugeLine is the length of the longest line of Split, in bytes.
const hugeLine = 1 << 20

func (p *player) useTool(n int) {
	c := toolCall{fmt.Sprintf("call_fake%04d", n), "echo fake-tool-ran", "fake-tool-ran"}
	if p.item.Scenario == Split {
		c.output = strings.Repeat("0123456789abcdef", hugeLine/16)
	}
	p.locked(func() (int, bool) { p.speaks.tool(c); return 0, true })
}

// uuid returns a random identifier.
func uuid() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// short returns a random word of letters and digits.
func short() string { return strings.ReplaceAll(uuid(), "-", "")[:24] }
