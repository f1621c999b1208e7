package run

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/cluster/node"
)

func TestDownText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ending node.Ending
		keep   bool
		want   string
	}{
		{node.Ending{Node: "b"}, false,
			"node b is down; its agents are stopped, and start on other nodes that take them"},
		{node.Ending{Node: "a", Controller: true}, false, "the next controller starts them"},
		{node.Ending{Node: "a", Controller: true}, true, "go on for up to 10s"},
		{node.Ending{Node: "b\x1b"}, true, "node b is down; its agents go on"},
	} {
		if got := downText(tt.ending, tt.keep); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.ending, got, tt.want)
		}
	}
}
