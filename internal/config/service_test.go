package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

const serviceFleet = "[[agent]]\nname = \"a\"\ncommand = \"a\"\n"

func TestServiceTables(t *testing.T) {
	tree, err := Parse("/f/coppice.toml", []byte(`[[service]]
name = "Registry"
check = "curl -fsS https://registry.example.com"
interval = "1m"
timeout = "3s"
[[service]]
name = "the CI server"
check = ["./ci up?"]
`+serviceFleet))
	if err != nil {
		t.Fatal(err)
	}
	expected := []spec.Service{
		{Name: "Registry", Check: []string{"curl", "-fsS", "https://registry.example.com"}, Dir: "/f",
			Timeout: 3 * time.Second, Interval: time.Minute},
		{Name: "the CI server", Check: []string{"./ci up?"}, Dir: "/f", Timeout: spec.DefaultCheckLimit,
			Interval: spec.DefaultCheckEvery},
	}
	if !reflect.DeepEqual(tree.Services, expected) {
		t.Errorf("%+v", tree.Services)
	}
	if s := spec.FindService(tree.Services, " registry "); s == nil || s.Name != "Registry" {
		t.Errorf("found %+v", s)
	}
	if s := spec.FindService(tree.Services, "other"); s != nil {
		t.Errorf("found %+v", s)
	}
}

func TestBadServices(t *testing.T) {
	const head = "[[service]]\n"
	const main = head + "name = \"n\"\ncheck = \"true\"\n"
	for _, c := range []struct{ text, expected string }{
		{head + "check = \"true\"\n", `1:3: [[service]] without name, expected one (string)`},
		{head + "name = \"n\"\n", `1:3: [[service]] without check, expected one`},
		{head + "name = \" \"\ncheck = \"true\"\n", `2:8: name is empty`},
		{head + "name = \"a\\nb\"\ncheck = \"true\"\n", `2:8: the name "a\nb", expected one line`},
		{main + head + "name = \"N\"\ncheck = \"true\"\n",
			`5:8: the name "N" is taken by another service, expected another one`},
		{main + "interval = \"0s\"\n", `4:12: interval is "0s"`},
		{main + "timeout = \"-1s\"\n", `4:11: timeout is "-1s"`},
		{head + "name = \"n\"\ncheck = []\n", `3:9: check is empty, expected a program and its arguments`},
		{main + "command = \"x\"\n", `4:1: unknown key "command" in [[service]]; did you mean "check"?`},
		{many(spec.MaxServices + 1), `expected at most 100`},
	} {
		_, err := Parse("f/coppice.toml", []byte(c.text+serviceFleet))
		if err == nil || !strings.Contains(err.Error(), c.expected) {
			t.Errorf("%.200s\n%v\nwant %s", c.text, err, c.expected)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "coppice.toml")
	text := "[[agent]]\nname = \"a\"\ncommand = \"true\"\n" + head + "name = \"n\"\ncheck = \"./missing.sh\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const missing = `6:9: the check "./missing.sh" of the service "n" cannot be run`
	if _, err := LoadAll(file); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v", err)
	}
}

// many returns a text with so many services.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("[[service]]\nname = \"s" + strings.Repeat("x", i) + "\"\ncheck = \"true\"\n")
	}
	return b.String()
}
