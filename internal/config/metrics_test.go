package config

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/spec"
)

func TestMetrics(t *testing.T) {
	const base = "[[agent]]\nname = \"a\"\ncommand = [\"sleep\", \"1000\"]\n"
	for text, want := range map[string]spec.Metrics{
		"": {}, "[metrics]\n": {}, "[metrics]\nmax_agents = 5\n": {},
		"[metrics]\nlisten = \"127.0.0.1:9464\"\n":               {Listen: "127.0.0.1:9464", MaxAgents: 1000},
		"[metrics]\nlisten = \"0.0.0.0:9464\"\nmax_agents = 1\n": {Listen: "0.0.0.0:9464", MaxAgents: 1},
		"[metrics]\nlisten = \"[::]:1\"\nmax_agents = 100000\n":  {Listen: "[::]:1", MaxAgents: 100_000},
	} {
		tree, err := Parse("coppice.toml", []byte(base+text))
		if err != nil || tree.Metrics != want {
			t.Errorf("%q: %v, %v", text, tree, err)
		}
	}
	for value, want := range map[string]string{
		`listen = ":9464"`:            "5:10: listen is \":9464\", expected an IP address with a port, such as",
		`listen = "9464"`:             "5:10: listen is \"9464\", expected an IP address with a port, such as",
		`listen = 9464`:               "5:10: listen is an integer, expected an IP address with a port, such as",
		`listen = "localhost:9464"`:   "5:10: listen is \"localhost:9464\", expected an IP address with a port, such as",
		`listen = "127.0.0.1"`:        "5:10: listen is ",
		`listen = "127.0.0.1:0"`:      "5:10: listen is ",
		`listen = "127.0.0.1:70000"`:  "5:10: listen is ",
		`listen = "http://127.0.0.1"`: "5:10: listen is ",
		`listen = ""`:                 "5:10: listen is ",
		`max_agents = 0`:              "5:14: max_agents is 0, expected ",
		`max_agents = 100001`:         "5:14: max_agents is 100001, expected ",
		`max_agents = "many"`:         "5:14: max_agents is ",
		`port = 9464`:                 "5:1: ",
	} {
		_, err := Parse("coppice.toml", []byte(base+"[metrics]\n"+value+"\n"))
		if err == nil || !strings.Contains(err.Error(), "coppice.toml:"+want) {
			t.Errorf("%s: %v", value, err)
		}
	}
}
