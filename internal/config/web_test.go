package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/spec"
)

func TestWeb(t *testing.T) {
	const base = "[[agent]]\nname = \"a\"\ncommand = [\"sleep\", \"1000\"]\n"
	for text, want := range map[string]spec.Web{
		"": {}, "[web]\n": {}, "[web]\nread_only = true\n": {},
		"[web]\nlisten = \"127.0.0.1:7391\"\n": {Listen: "127.0.0.1:7391"},
		"[web]\nlisten = \"[::]:1\"\nread_only = true\nhosts = [\"a.example\", \"B-1\"]\n": {
			Listen: "[::]:1", ReadOnly: true, Hosts: []string{"a.example", "B-1"}},
		"[web]\nlisten = \"0.0.0.0:1\"\nhosts = [\"*\"]\n": {Listen: "0.0.0.0:1", Hosts: []string{"*"}},
	} {
		tree, err := Parse("coppice.toml", []byte(base+text))
		if err != nil || !reflect.DeepEqual(tree.Web, want) {
			t.Errorf("%q: %v, %v", text, tree, err)
		}
	}
	long := strings.Repeat("a", spec.MaxWebHost+1)
	many := strings.Repeat(`"a", `, spec.MaxWebHosts+1)
	for value, want := range map[string]string{
		`listen = ":7391"`:                  "5:10: listen is \":7391\", expected an IP address with a port, such as",
		`listen = "127.0.0.1:0"`:            "5:10: listen is ",
		`read_only = "true"`:                "5:13: read_only is a string",
		`hosts = "a.example"`:               "5:9: hosts is ",
		`hosts = [1]`:                       "5:10: ",
		`hosts = ["a", ""]`:                 "5:15: \"\" is not a host name, expected",
		`hosts = ["http://a.example"]`:      "5:10: \"http://a.example\" is not a host name",
		`hosts = ["a.example:80"]`:          "5:10: \"a.example:80\" is not a host name",
		`hosts = ["*.example"]`:             "5:10: \"*.example\" is not a host name",
		`hosts = ["-a"]`:                    "5:10: \"-a\" is not a host name",
		`hosts = ["a..b"]`:                  "5:10: \"a..b\" is not a host name",
		`hosts = ["` + long + `"]`:          "5:10: ",
		`hosts = [` + many + `]`:            "5:9: hosts has 65 names, expected at most 64",
		`port = 7391`:                       "5:1: ",
		`hosts = ["a.example", "b c.test"]`: "5:23: \"b c.test\" is not a host name",
	} {
		_, err := Parse("coppice.toml", []byte(base+"[web]\n"+value+"\n"))
		if err == nil || !strings.Contains(err.Error(), "coppice.toml:"+want) {
			t.Errorf("%s: %v", value, err)
		}
	}
}
