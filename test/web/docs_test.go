package web

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The commands of the page about the page serve it.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/web.md")
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, agent("api", `exec sleep 1000`))
	commands := regexp.MustCompile(`(?m)^coppice web ?(.*?) *#`).FindAllStringSubmatch(string(page), -1)
	if len(commands) != 3 {
		t.Fatalf("%q", commands)
	}
	for _, c := range commands {
		s := f.web(strings.Fields(strings.ReplaceAll(c[1], "--open", ""))...)
		client, cookie := s.client(s.link)
		_, body := s.send(client, cookie, "GET", "/", nil, nil)
		if strings.Contains(body, "read-only") != strings.Contains(c[1], "--read-only") {
			t.Errorf("%s: %s", c[0], body)
		}
	}
}
