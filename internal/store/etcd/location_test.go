package etcd_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/store/etcd"
)

func TestParseLocation(t *testing.T) {
	for text, want := range map[string]etcd.Location{
		"etcd://a":                   {Endpoints: []string{"a:2379"}, Prefix: "coppice"},
		"etcd://A,b:01,10.0.0.3":     {Endpoints: []string{"a:2379", "b:1", "10.0.0.3:2379"}, Prefix: "coppice"},
		"etcd://[::1]:23,[fe80::2]/": {Endpoints: []string{"[::1]:23", "[fe80::2]:2379"}, Prefix: "coppice"},
		"etcd://a/x/y%20z":           {Endpoints: []string{"a:2379"}, Prefix: "x/y z"},
		"etcds://me%40here@a/p?ca=c.pem&cert=d&key=e&password_file=f%3Dg": {Endpoints: []string{"a:2379"}, Prefix: "p",
			TLS: true, CA: "c.pem", Cert: "d", Key: "e", User: "me@here", PasswordFile: "f=g"},
	} {
		got, err := etcd.ParseLocation(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", text, diff)
		}
		if again, err := etcd.ParseLocation(got.String()); err != nil || !cmp.Equal(again, got) {
			t.Errorf("%s became %s: %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                              "expected etcd://",
		"http://a":                      "expected etcd://",
		"etcd:a":                        "expected etcd://",
		"etcd://":                       `"" is not HOST or HOST:PORT`,
		"etcd://a,":                     `"" is not HOST`,
		"etcd://a b":                    `"a b" is not HOST`,
		"etcd://::1":                    "needs brackets",
		"etcd://a:0":                    "a port from 1 to 65535",
		"etcd://a:99999":                "a port from 1 to 65535",
		"etcd://a,a:2379":               "named twice",
		"etcd://a//":                    "has an empty part",
		"etcd://a/%zz":                  "prefix",
		"etcd://me:hunter2@a":           "password_file",
		"etcd://me@a":                   "need each other",
		"etcd://@a":                     "a name of a user",
		"etcd://a?password_file=x":      "need each other",
		"etcd://a?ca=x":                 "begin with etcds://",
		"etcds://a?cert=x":              "cert and key need each other",
		"etcds://a?ca=":                 "once each",
		"etcds://a?ca=x&ca=y":           "once each",
		"etcds://a?insecure=true":       "expected ca, cert, key or password_file",
		"etcd://" + manyHosts(40):       "at most 32",
		"etcd://" + manyHosts(1<<20):    "at most 8192",
		"etcd://u:hunter2@a?ca=x@y:z/w": "password_file",
	} {
		_, err := etcd.ParseLocation(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50s: %v, want %s", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 1000) {
			t.Errorf("%.50s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"etcd://u:secret@a/b": "etcd://...@a/b", "etcd://u@a:1/b": "etcd://u@a:1/b", "u:secret@a": "u:secret@a",
	} {
		if got := etcd.WithoutPassword(text); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
	l, _ := etcd.ParseLocation("etcds://a?ca=c.pem&cert=/d&key=e")
	if got := l.In("/dir"); got.CA != "/dir/c.pem" || got.Cert != "/d" || got.Key != "/dir/e" || got.PasswordFile != "" {
		t.Errorf("%+v", got)
	}
}

func manyHosts(n int) string {
	hosts := make([]string, 0, n)
	for i := range n {
		hosts = append(hosts, "h"+strings.Repeat("x", i%50)+string(rune('a'+i%26)))
	}
	return strings.Join(hosts, ",")
}

func FuzzParseLocation(f *testing.F) {
	for _, seed := range []string{"etcd://a,b:1/p", "etcds://u@[::1]/p?ca=x&cert=y&key=z&password_file=w", "etcd://%/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := etcd.ParseLocation(text)
		if err != nil {
			return
		}
		again, err := etcd.ParseLocation(l.String())
		if err != nil || !cmp.Equal(l, again) {
			t.Errorf("%q is %+v, and %q is %+v, %v", text, l, l.String(), again, err)
		}
	})
}

// Files that cannot be used are named, before anything is sent.
func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	garbage, empty := write("garbage", "garbage"), write("empty", "")
	huge := write("huge", strings.Repeat("x", 2<<20))
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"etcds://a?ca=" + dir + "/missing":              "no such file",
		"etcds://a?ca=" + garbage:                       "no certificate in PEM format",
		"etcds://a?ca=" + huge:                          "larger than 1048576 bytes",
		"etcds://a?cert=" + garbage + "&key=" + garbage: "cert " + garbage,
		"etcd://u@a?password_file=" + empty:             "is empty",
		"etcd://u@a?password_file=" + dir:               "is not a regular file",
		"etcd://u@a?password_file=" + pipe:              "is not a regular file",
	} {
		if _, err := open(t.Context(), url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}
