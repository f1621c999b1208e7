package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

func TestHaunt(t *testing.T) {
	type look struct {
		runs bool
		at   time.Duration
		dead bool
	}
	for name, looks := range map[string][]look{
		"it dies":                {{true, 0, false}, {false, 1, false}, {false, 2, true}},
		"another takes its turn": {{true, 0, false}, {false, 1, false}, {true, 2, false}, {false, 3, false}, {false, 4, true}},
		"it has yet to come":     {{false, 0, false}, {false, time.Second, false}, {false, 20 * time.Second, false}, {true, 21 * time.Second, false}},
		"it never comes":         {{false, 0, false}, {false, 30 * time.Second, false}, {false, 31 * time.Second, true}},
	} {
		var h haunt
		for i, l := range looks {
			if got := h.look(l.runs, l.at); got != l.dead {
				t.Errorf("%s: look %d says dead: %v", name, i, got)
			}
		}
	}
}

func TestRunsAny(t *testing.T) {
	long := "a-very-long-name-of-a-program"
	for _, c := range []struct {
		programs, names string
		want            bool
	}{
		{"sh node claude", "claude", true},
		{"sh", "claude node", false},
		{"", "claude", false},
		{long[:15], long, true},
		{"claudette", "claude", false},
	} {
		if got := runsAny(strings.Fields(c.programs), strings.Fields(c.names)); got != c.want {
			t.Errorf("%q among %q: %v", c.names, c.programs, got)
		}
	}
}

// The event of a zombie's end has what was seen of it, not what its shell said
// when that was killed.
func TestZombieExit(t *testing.T) {
	x := supervisor.Exit{Kind: supervisor.Failure, Err: &condemned{&zombieError{[]string{"claude"}, []string{"last words"}}, nil}}
	end := endOf(x)
	if out := end.LastOutput; len(out) != 1 || out[0] != "last words" {
		t.Errorf("%+v", end)
	}
	if !strings.HasPrefix(x.String(), "none of its processes is claude any more") {
		t.Errorf("%v", x)
	}
}
