package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestLong(t *testing.T) {
	x := strings.Repeat("x", 130)
	for source, want := range map[string]string{
		"package p\n// short\n":                              "[]",
		"package p\n// " + x + "\nvar a = 1 // " + x:         "[2 3]",
		"package p\nvar a = `" + x + "\n" + x + "`\n":        "[]",
		"package p\n//go:generate " + x + "\n":               "[]",
		"package p\nvar a = \"" + x + "\"":                   "[2]",
		"package p\n// " + strings.Repeat("ä", 117):          "[]",
		"package p\nfunc f() {\n\t// " + x[:113] + "\n}\n":   "[]",
		"package p\nfunc f() {\n\t\t// " + x[:113] + "\n}\n": "[3]",
	} {
		if got := fmt.Sprint(long([]byte(source))); got != want {
			t.Errorf("%.40q...: %s, want %s", source, got, want)
		}
	}
}
