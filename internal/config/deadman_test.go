package config

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

func TestDeadman(t *testing.T) {
	for text, want := range map[string]spec.Deadman{
		"": {},
		"[deadman]\nurl = \"https://example.com/a\"\n": {URL: "https://example.com/a", Interval: time.Minute},
		"[deadman]\nurl_file = \"ping\"\ninterval = \"5m\"\n": {URLFrom: spec.Secret{File: "/f/ping"},
			Interval: 5 * time.Minute},
		"[deadman]\nurl_env = \"PING\"\ninterval = \"10s\"\n": {URLFrom: spec.Secret{Env: "PING"},
			Interval: 10 * time.Second},
	} {
		tree, err := Parse("/f/coppice.toml", []byte(text+base))
		if err != nil || tree.Deadman != want || want.IsSet() != (text != "") {
			t.Errorf("%q: %v, %v", text, tree, err)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"[deadman]\n",
			"f:1:2: [deadman] without url or url_env or url_file, expected one"},
		{"[deadman]\nurl = \"x\"\n",
			"f:2:7: url is \"x\", expected a URL that begins with http:// or https://"},
		{"[deadman]\nurl_env = \"a b\"\n",
			"f:2:11: url_env is not the name of a variable"},
		{"[deadman]\nurl_env = \"A\"\nurl_file = \"b\"\n",
			"f:3:12: url_env and url_file, expected one of these"},
		{"[deadman]\nurl_env = \"A\"\ninterval = \"9s\"\n",
			"f:3:12: interval is \"9s\", expected 10s to 24h"},
		{"[deadman]\nurl_env = \"A\"\nevery = \"9s\"\n",
			"did you mean \"interval\"?"},
		{"[[deadman]]\nurl_env = \"A\"\n",
			"f:1:3: deadman is an array, expected a table; write [deadman]"},
	} {
		_, err := Parse("f", []byte(c.text+base))
		if got := errorText(err); !strings.Contains(got, c.want) {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
}
