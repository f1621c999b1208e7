package clitest

import (
	"fmt"
	"testing"

	"github.com/coppice-dev/coppice/internal/fakemodel"
)

// tag names the runs of a test in the ledger.
const tag = "run"

// model is the server of a test.
type model struct {
	*fakemodel.Server
	listener *fakemodel.Listener
	asked    chan struct{} // gets one for each request for an answer
}

func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{Server: fakemodel.New(), asked: make(chan struct{}, 10_000)}
	m.Observe(func(r fakemodel.Request) {
		if r.Kind == fakemodel.KindMain {
			m.asked <- struct{}{}
		}
	})
	var err error
	if m.listener, err = m.Listen(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.listener.Close)
	return m
}

// answers sets what the model answers from now on.
func (m *model) answers(t *testing.T, scenario string) {
	t.Helper()
	if err := m.SetScenario(tag, scenario); err != nil {
		t.Fatal(err)
	}
}

// served returns the tokens of answers since a request: of all that are whole, of those of these that are on the
// side, and of answers that broke off.
func (m *model) served(since int) (all, side, broken int64) {
	for _, r := range m.Ledger(tag)[since:] {
		n := int64(r.Input + r.Written + r.Output)
		switch {
		case !r.Sent:
			broken += n
			continue
		case r.Kind == fakemodel.KindSide:
			side += n
		}
		all += n
	}
	return all, side, broken
}

// compare compares the tokens that a command line has reported with those that were served since a request. They are
// nil if they are not known.
func (m *model) compare(k Kind, since int, reported *int64, d uncounted) error {
	served, side, broken := m.served(since)
	least := served - d.tokens
	if k == Opencode {
		least -= side // it leaves out its requests for a title
	}
	most := least
	if d.broken {
		most += broken
	}
	if reported == nil {
		if least == 0 || d.late {
			return nil
		}
		return fmt.Errorf("the tokens are not known, the server has served %d", served)
	}
	if *reported < least || *reported > most {
		return fmt.Errorf("%d tokens, expected %d to %d of %d that the server has served, with %d on the side; %s",
			*reported, least, most, served, side, d.why)
	}
	return nil
}

// continues reports whether a request since another one continues a conversation.
func (m *model) continues(since int) bool {
	for _, r := range m.Ledger(tag)[since:] {
		if r.Kind == fakemodel.KindMain {
			return r.Messages >= 2
		}
	}
	return false
}
