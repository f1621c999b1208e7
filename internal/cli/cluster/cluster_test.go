package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
	"github.com/coppice-dev/coppice/internal/cluster/registry"
	"github.com/coppice-dev/coppice/internal/store/etcd"
)

// A token names the node that makes it first, and each address once.
func TestChooseAddresses(t *testing.T) {
	node := func(address string) registry.Node { return registry.Node{Info: registry.Info{Address: address}} }
	for name, c := range map[string]struct {
		nodes []registry.Node
		want  []string
	}{
		"alone":       {nil, []string{"a:1"}},
		"itself":      {[]registry.Node{node("a:1")}, []string{"a:1"}},
		"unannounced": {[]registry.Node{node(""), node("b:1")}, []string{"a:1", "b:1"}},
		"damaged":     {[]registry.Node{node("b"), node("0.0.0.0:1"), node("c:1")}, []string{"a:1", "c:1"}},
		"many": {[]registry.Node{node("b:1"), node("a:1"), node("b:1"), node("c:1"), node("d:1")},
			[]string{"a:1", "b:1", "c:1"}},
	} {
		if got := chooseAddresses("a:1", c.nodes); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestTokenLines(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	plain := terminal.NewPaint(false)
	got := tokenLines([]tokenInfo{{"abcdefgh", now.Add(-time.Minute), now.Add(time.Hour)}}, now, plain, 0)
	if want := []string{"ID        AGE    EXPIRES", "abcdefgh  1m00s  in 1h00m"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := tokenLines(nil, now, plain, 0); len(got) != 1 {
		t.Errorf("of none: %q", got)
	}
}

// What a machine that was removed can still do is said only if it can be taken away from it.
func TestKeptLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		url  string
		want []string // a part of each line
	}{
		{"etcd://a,b/p", nil},
		{"etcds://a/p?ca=ca.pem", nil},
		{"etcd://shop@a/p?password_file=x", []string{"password of user shop", "another user, and on each node",
			"user delete shop"}},
		{"etcds://a/p?cert=c&key=k", []string{"client certificate", "another certificate, and", "--client-crl-file"}},
		{"etcds://shop@a/p?cert=c&key=k&password_file=x", []string{
			"password of user shop of etcd, and the client certificate", "another user and certificate",
			"user delete", "--client-crl-file",
		}},
	} {
		l, err := etcd.ParseLocation(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		got := keptLines(l)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %q", tt.url, got)
			continue
		}
		for i, want := range tt.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q does not say %q", tt.url, got[i], want)
			}
		}
	}
}
