package envfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/config/toml"
)

func TestEnvFile(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want map[string]string
		err  string
	}{
		"empty":            {"", map[string]string{}, ""},
		"comments":         {"# one\n\n  # two\n;A\n", nil, "x.env:4:1: ';' cannot be here, expected KEY=VALUE; names have letters, digits, _, - and ., and no digit in front"},
		"plain":            {"A=1\nB = two words \nC=\n", map[string]string{"A": "1", "B": "two words", "C": ""}, ""},
		"no line end":      {"A=1", map[string]string{"A": "1"}, ""},
		"windows":          {"\xef\xbb\xbfA=1\r\nB='x\r\ny'\r\n\r\nC=\"z\"\r\n", map[string]string{"A": "1", "B": "x\ny", "C": "z"}, ""},
		"export":           {"export A=1\nexport\tB=2\nexport=3\nexported=4\n", map[string]string{"A": "1", "B": "2", "export": "3", "exported": "4"}, ""},
		"trailing comment": {"A=1 # one\nB=1#one\nC= # none\nD='x' # y\n", map[string]string{"A": "1", "B": "1#one", "C": "", "D": "x"}, ""},
		"quotes":           {`A='$HOME \n "x"'` + "\n" + `B="a\tb\n\"q\" \\ \$ \z 'x'"` + "\n" + `C=it's`, map[string]string{"A": `$HOME \n "x"`, "B": "a\tb\n\"q\" \\ $ \\z 'x'", "C": "it's"}, ""},
		"several lines":    {"A=\"one\ntwo\"\nB=3\n", map[string]string{"A": "one\ntwo", "B": "3"}, ""},
		"nothing expanded": {"A=$HOME\nB=\"${A}\"\nC=`id`\nD=$(id)\n", map[string]string{"A": "$HOME", "B": "${A}", "C": "`id`", "D": "$(id)"}, ""},
		"equals signs":     {"URL=postgres://a?b=c&d==\n", map[string]string{"URL": "postgres://a?b=c&d=="}, ""},
		"the last wins":    {"A=1\nA=2\n", map[string]string{"A": "2"}, ""},
		"names":            {"_a.b-C1=x\n", map[string]string{"_a.b-C1": "x"}, ""},
		"not ASCII":        {"A=größe\n", map[string]string{"A": "größe"}, ""},

		"no equals sign":  {"A=1\n  SECRET\n", nil, `x.env:2:3: the variable "SECRET" without a =, expected KEY=VALUE; write SECRET= for an empty value`},
		"two words":       {"A B=1\n", nil, `x.env:1:3: 'B' cannot be here, expected KEY=VALUE; names have letters, digits, _, - and ., and no digit in front`},
		"digit":           {"1A=1\n", nil, `x.env:1:1: '1' cannot be here`},
		"no name":         {"=1\n", nil, `x.env:1:1: a value without a name, expected KEY=VALUE`},
		"quoted name":     {"\"A\"=1\n", nil, `x.env:1:1: '"' cannot be here`},
		"yaml":            {"A: 1\n", nil, `x.env:1:2: ':' cannot be here`},
		"ours":            {"COPPICE_TOKEN=x\n", nil, `x.env:1:1: the variable "COPPICE_TOKEN" is set by Coppice itself, expected another name`},
		"open quote":      {"A=1\nB=\"secret\nC=2\n", nil, `x.env:2:3: a value in " quotes does not end, expected the second one`},
		"behind a quote":  {"A='b' c\n", nil, `x.env:1:7: text behind a value in quotes, expected the end of the line; put all of the value into the quotes`},
		"comment touches": {"A='b'#c\n", nil, `x.env:1:6: text behind a value in quotes`},
		"zero byte":       {"A=1\nB=x\x00\n", nil, `x.env:2:4: a zero byte, expected text`},
		"not UTF-8":       {"Ä=1\nB=\xff\n", nil, `x.env:2:3: the byte 0xff is not UTF-8`},
		"UTF-16":          {"\xff\xfeA\x00", nil, `x.env:1:1: the file is UTF-16`},
		"too long":        {"A=" + strings.Repeat("x", 200_000), nil, `x.env:1:1: the variable "A" has 200000 bytes, expected at most`},
	} {
		got, err := parse("x.env", []byte(test.text))
		switch {
		case test.err == "":
			if err != nil || !cmp.Equal(got, test.want) {
				t.Errorf("%s: %q, %v, want %q", name, got, err, test.want)
			}
		case err == nil || !strings.HasPrefix(err.Error(), test.err):
			t.Errorf("%s: %q, %v, want %s", name, got, err, test.err)
		case strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error has the value: %v", name, err)
		}
	}
}

func TestEnvFileUnreadable(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "none: no such file, expected variables as KEY=VALUE; create it") {
		t.Errorf("missing: %v", err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "expected a regular file") {
		t.Errorf("a directory: %v", err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, toml.MaxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(large); err == nil || !strings.Contains(err.Error(), "the file has 1048577 bytes") {
		t.Errorf("too large: %v", err)
	}
}

func FuzzEnvFile(f *testing.F) {
	for _, text := range []string{"A=1\n", "export A='b\nc' # d\r\n", "A=\"\\n\\\"\"", "\xef\xbb\xbfA", "=\x00", "A='", "export", "#", "A=#\r"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		vars, err := parse("x.env", data)
		if err != nil {
			if err.Line < 1 || err.Column < 1 || strings.ContainsAny(err.Error(), "\n\x1b\x00") {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		for name, value := range vars {
			if name == "" || strings.ContainsAny(name, "= \t\n\x00") || strings.Contains(value, "\x00") || !utf8.ValidString(name+value) {
				t.Errorf("%q: %q is %q", data, name, value)
			}
			// Variables that are written and read again are equal.
			again, err := parse("x.env", []byte(name+"=\""+strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "\r", `\r`).Replace(value)+"\"\n"))
			if err != nil || again[name] != value {
				t.Errorf("%q: %q again: %q, %v", name, value, again, err)
			}
		}
	})
}
