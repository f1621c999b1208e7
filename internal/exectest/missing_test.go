package exectest

import (
	"cmp"
	"errors"
	"testing"
)

// notice is a test that notes how it ended: by the first call, as that of a real one does not return.
type notice struct {
	testing.TB
	end string
}

func (n *notice) Helper()      {}
func (n *notice) Fatal(...any) { n.end = cmp.Or(n.end, "fails") }
func (n *notice) Skip(...any)  { n.end = cmp.Or(n.end, "is skipped") }

func TestMissing(t *testing.T) {
	for ci, want := range map[string]string{"true": "fails", "": "is skipped", "false": "is skipped"} {
		t.Setenv("CI", ci)
		n := &notice{TB: t}
		Missing(n, errors.New("no program"))
		if n.end != want {
			t.Errorf("with CI=%q it %s, expected: %s", ci, n.end, want)
		}
		n.end = ""
		if Need(n, "no-such-program"); n.end != want {
			t.Errorf("with CI=%q a program that is needed: %s, expected: %s", ci, n.end, want)
		}
	}
}
