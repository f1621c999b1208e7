package top

import (
	"reflect"
	"time"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/coppice-dev/coppice/internal/cli/look"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/status"
)

// explainInterval is the time after which an explanation is old although its node has not changed:
// events and facts may have.
const explainInterval = 5 * time.Second

// explainView shows why a node is in its state.
type explainView struct {
	explanation
	asking bool // one request is under way at a time
	view   viewport.Model
}

// explanation is an answer of the daemon. It is a message.
type explanation struct {
	node status.Node // as it was when the daemon was asked, without what always changes
	at   time.Time
	is   status.Explanation
	err  error
}

// ask returns a command that has a node explained if what is known is of another one, or old.
func (v *explainView) ask(fleet topFleet, n status.Node, now time.Time) tea.Cmd {
	n = withoutClocks(n)
	if v.asking || v.node.Path == n.Path && now.Sub(v.at) < explainInterval && reflect.DeepEqual(v.node, n) {
		return nil
	}
	v.asking = true
	return func() tea.Msg {
		x, err := fleet.explain(n.Path)
		return explanation{n, now, x, err}
	}
}

// take receives an explanation.
func (v *explainView) take(x explanation) { v.explanation, v.asking = x, false }

// withoutClocks returns a node without the times that go on while nothing happens.
func withoutClocks(n status.Node) status.Node {
	n.Uptime = 0
	if n.Vitals != nil {
		v := *n.Vitals
		v.Heartbeat, v.ProgressAge = nil, 0
		n.Vitals = &v
	}
	if n.Drain != nil {
		d := *n.Drain
		d.Left = 0
		n.Drain = &d
	}
	return n
}

// lines returns the explanation of a node; nil if it is not known.
func (v *explainView) lines(path string, c canvas) []string {
	x := v.explanation
	switch {
	case path == "" || x.node.Path != path:
		return nil
	case x.err != nil:
		return []string{c.paint.Red(plaintext.Line(oneLine(x.err)))}
	}
	return wrapped(look.ExplainLines(x.is, time.Now(), c.paint), 7, c.width)
}
