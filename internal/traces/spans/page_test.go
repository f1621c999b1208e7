package spans

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/traces.md has all attributes and events of spans.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/traces.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("attributes.go")
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`attribute\.Key\("(.*)"\)`).FindAllStringSubmatch(string(source), -1)
	if len(keys) < 20 {
		t.Fatalf("%v", keys)
	}
	for _, key := range keys {
		if key[1] != string(keyLink) && !strings.Contains(string(page), "`"+key[1]+"`") {
			t.Errorf("the page does not have %s", key[1])
		}
	}
}
