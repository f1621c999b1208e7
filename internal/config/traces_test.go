package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/spec"
)

func TestTraces(t *testing.T) {
	const endpoint = "[traces]\nendpoint = \"http://127.0.0.1:4318\"\n"
	at := func(all ...spec.Header) spec.Traces {
		return spec.Traces{Endpoint: "http://127.0.0.1:4318", Headers: all}
	}
	for text, want := range map[string]spec.Traces{
		"": {}, endpoint: at(),
		endpoint + "headers_file = { authorization = \"tok\" }\nheaders_env = { X-Key = \"KEY\" }\n" +
			"headers = { x-scope = \"my team\" }\n": at(
			spec.Header{Name: "Authorization", From: spec.Secret{File: "/f/tok"}},
			spec.Header{Name: "X-Key", From: spec.Secret{Env: "KEY"}}, spec.Header{Name: "X-Scope", Value: "my team"}),
		"[traces]\nendpoint = \"https://example.com/otlp/\"\n": {Endpoint: "https://example.com/otlp/"},
	} {
		tree, err := Parse("/f/coppice.toml", []byte(text+base))
		if err != nil || !tree.Traces.Equal(want) || want.IsSet() != (text != "") {
			t.Errorf("%q: %v, %v", text, tree, err)
		}
	}
	var many strings.Builder
	for i := range spec.MaxHeaders + 1 {
		fmt.Fprintf(&many, "headers.a%d = \"x\"\n", i)
	}
	for _, c := range []struct{ text, want string }{
		{"[traces]\n", "f:1:2: [traces] without endpoint"},
		{"[traces]\nendpoint = \"127.0.0.1:4318\"\n", "f:2:12: endpoint is \"127.0.0.1:4318\", expected a URL that begins"},
		{"[traces]\nendpoint = \"http://a:b@x\"\n", "f:2:12: endpoint has a password, expected a URL without one"},
		{"[traces]\nendpoint = \"http://x/?a=b\"\n", "f:2:12: endpoint is \"http://x/?a=b\", expected a URL without ? and #"},
		{"[traces]\nendpoint = \"http://x/v1/traces\"\n", "f:2:12: endpoint ends with /v1/traces, which is appended"},
		{"[traces]\nurl = \"http://x\"\n", "did you mean \"endpoint\"?"},
		{endpoint + "headers = \"a\"\n", "f:3:11: headers is a string, expected a table of strings"},
		{endpoint + "headers.a = 1\n", "f:3:13: a is an integer, expected a string"},
		{endpoint + "headers.a = \"\"\n", "f:3:13: a is empty, expected a string"},
		{endpoint + "headers.\"a b\" = \"x\"\n", "f:3:9: \"a b\" is not the name of a header that can be set"},
		{endpoint + "headers.content-type = \"x\"\n", "f:3:9: \"content-type\" is not the name of a header that"},
		{endpoint + "headers.host = \"x\"\n", "f:3:9: \"host\" is not the name of a header that"},
		{endpoint + "headers.a = \"x\"\nheaders_env.A = \"X\"\n", "f:4:13: the header A is set twice"},
		{endpoint + "headers.a = \"x\\ny\"\n", "f:3:13: the value of A has control characters"},
		{endpoint + "headers_env.a = \"Bearer secret\"\n", "f:3:17: a is not the name of a variable, expected letters"},
		{endpoint + many.String(), "there are more than 20 headers"},
	} {
		_, err := Parse("f", []byte(c.text+base))
		if got := errorText(err); !strings.Contains(got, c.want) || strings.Contains(got, "Bearer") {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
}
