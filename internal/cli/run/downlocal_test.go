package run

import (
	"strings"
	"testing"
)

func TestDownText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		end  localEnd
		want string
	}{
		{localEnd{Node: "b"}, "node b is down; its agents are stopped, and start on other nodes that take them"},
		{localEnd{Node: "a", Controller: true}, "the next controller starts them"},
		{localEnd{Node: "a", Controller: true, NoTaker: "b is lost"}, "are stopped, and start when a node takes them"},
		{localEnd{Node: "a", Starting: true, NoTaker: "not known"}, "its daemon was starting, and ran no agents yet"},
		{localEnd{Node: "a", Controller: true, Keep: true}, "go on for up to 10s"},
		{localEnd{Node: "b\x1b", Keep: true}, "node b is down; its agents go on"},
	} {
		if got := downText(tt.end); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.end, got, tt.want)
		}
	}
}
