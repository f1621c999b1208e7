package web

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestColoured(t *testing.T) {
	for line, want := range map[string]string{
		"":                       "",
		"plain":                  "plain",
		"a\tb":                   "a\tb",
		"<b>&\"'":                "&lt;b&gt;&amp;&quot;&#39;",
		"\x1b[31mred\x1b[0m not": `<span class="term-fg31">red</span> not`,
		"\x1b[1;38;5;9mx":        `<span class="term-fgx9 term-fg1">x</span>`,
		"\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07":    "click",
		"\x1b]1337;File=name=YS5wbmc=;inline=1:aGk=\x07image": "image",
		"\x1b_bk;t=1\x1b\\time":                               "time",
		"\x1b_bk;t=1\x07time":                                 "time",
		"\x1b[2Jx\x1b[999999999Cy":                            "xy",
		"a\u202eb\u2066c":                                     "abc",
		"not UTF-8 \xff\xfe":                                  "not UTF-8 \ufffd\ufffd",
		"open \x1b[31":                                        "open 31",
		"one\rtwo":                                            "onetwo",
		"\x1b[31;<script>mx":                                  "&lt;script&gt;mx",
	} {
		if got := string(coloured(line)); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	long := string(coloured(strings.Repeat("<", 20<<20)))
	if len(long) > 5*maxLine || !strings.HasSuffix(long, "more bytes</span>") {
		t.Errorf("%d bytes, …%s", len(long), long[len(long)-100:])
	}
}

// elements are all elements that output may become.
var elements = regexp.MustCompile(`<span class="(cut|term-[a-z]+[0-9]+( term-[a-z]+[0-9]+)*)">|</span>`)

// Whatever an agent writes, it becomes text and colours.
func FuzzColoured(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m <b> \x1b]8;;http://x\x07")
	f.Add("\x9b31m\x1bP\x1b\\\x1b]1337;File=:")
	f.Fuzz(func(t *testing.T, line string) {
		html := string(coloured(line))
		if !utf8.ValidString(html) {
			t.Fatalf("%q is not UTF-8", html)
		}
		if rest := elements.ReplaceAllString(html, ""); strings.ContainsAny(rest, "<>\x00\x1b\"'") {
			t.Fatalf("%q became %q", line, html)
		}
	})
}
