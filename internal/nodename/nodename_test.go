package nodename_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/nodename"
)

func TestCheck(t *testing.T) {
	for _, name := range []string{"a", "web-1", "10.0.0.1", "web.example.com", "0", strings.Repeat("a", 63)} {
		if err := nodename.Check(name); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]string{
		"": "missing", strings.Repeat("a", 64): "64 bytes", "Web-1": `expected "web-1"`, "a_b": "other characters",
		"a b": "other characters", "../a": "other characters", "ä": "other characters", "a\x00": "other characters",
		"*": "other characters", ".": "empty part", "a..b": "empty part", ".a": "empty part", "a.": "empty part",
		"-a": "empty part", "a-": "empty part", "a.-b": "empty part", "a-.b": "empty part",
		strings.Repeat("\xff", 1<<20): "1048576 bytes",
	} {
		err := nodename.Check(name)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
			t.Errorf("%.80q: %v, want %q", name, err, want)
		}
	}
}

func TestCheckLabels(t *testing.T) {
	most := map[string]string{}
	for i := range nodename.MaxLabels {
		most[fmt.Sprint("l", i)] = ""
	}
	long := strings.Repeat("x", 63)
	for _, labels := range []map[string]string{
		nil, {"gpu": ""}, {"topology/zone": "eu-1_a.b"}, {long: long}, most,
	} {
		if err := nodename.CheckLabels(labels); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct{ name, value, want string }{
		{"", "x", `label "": the name is empty`},
		{"a b", "x", `label "a b": expected letters, digits, "-", "_" and "."; in a name also "/"`},
		{"a=b", "x", `label "a=b": expected letters`},
		{"ä", "x", `label "ä": expected letters`},
		{"a\x00", "x", `label "a\x00": expected letters`},
		{long + "x", "x", `: 64 bytes, at most 63 are allowed`},
		{strings.Repeat("\xff", 1<<20), "x", `: 1048576 bytes, at most 63 are allowed`},
		{"a", "x/y", `label a = "x/y": expected letters`},
		{"a", " ", `label a = " ": expected letters`},
		{"a", strings.Repeat("\xff", 1<<20), `: 1048576 bytes, at most 63 are allowed`},
	} {
		err := nodename.CheckLabels(map[string]string{"ok": "ok", c.name: c.value})
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 500 {
			t.Errorf("%.80q = %.80q: %v, want %q", c.name, c.value, err, c.want)
		}
		if err := nodename.CheckLabelName(c.name); (err == nil) != (c.name == "a") {
			t.Errorf("%.80q: %v", c.name, err)
		}
	}
	most["more"] = ""
	if err := nodename.CheckLabels(most); err == nil || err.Error() != "33 labels, at most 32 are allowed" {
		t.Error(err)
	}
}
