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
	table := regexp.MustCompile("(?s)```toml\n(.*?)```").FindStringSubmatch(string(page))
	if table == nil {
		t.Fatal("no [web]")
	}
	f := newFleet(t, strings.ReplaceAll(table[1], "127.0.0.1:7391", freeAddress(t)), agent("api", `exec sleep 1000`))
	commands := regexp.MustCompile(`(?m)^coppice web ?(.*?) *#`).FindAllStringSubmatch(string(page), -1)
	if len(commands) != 4 {
		t.Fatalf("%q", commands)
	}
	for _, c := range commands {
		if c[1] == "--sign-out" {
			if out := f.coppice("web", c[1]); out != "0 browsers signed out\n" {
				t.Error(out)
			}
			continue
		}
		s := f.web(strings.Fields(strings.ReplaceAll(c[1], "--open", ""))...)
		client, cookie := s.client(s.link)
		_, body := s.send(client, cookie, "GET", "/", nil, nil)
		if strings.Contains(body, "read-only") != strings.Contains(c[1], "--read-only") {
			t.Errorf("%s: %s", c[0], body)
		}
	}
}
