package project

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
)

func newProject(t *testing.T) Project {
	t.Helper()
	p, err := Open(filepath.Join(t.TempDir(), "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLocate(t *testing.T) {
	p := newProject(t)
	t.Chdir(t.TempDir())
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("here.db", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"sqlite":                              "sqlite:" + p.Database(),
		"sqlite:a/b.db":                       "sqlite:" + wd + "/a/b.db",
		"sqlite:/a/../b.db":                   "sqlite:/b.db",
		"sqlite:sqlite":                       "sqlite:" + wd + "/sqlite",
		"etcd://Host":                         "etcd://host:2379/coppice",
		"etcds://a:1,b:2,[::1]:03/f?ca=x.pem": "etcds://a:1,b:2,[::1]:3/f?ca=" + url.QueryEscape(wd+"/x.pem"),
	} {
		l, err := p.Locate(text)
		if err != nil || l.String() != want {
			t.Errorf("%s: %v, %v; want %s", text, l, err, want)
		}
		if again, err := p.Locate(l.String()); err != nil || again.String() != want || !again.Same(l) || !l.Same(again) ||
			again.own != l.own {
			t.Errorf("%s: %v, %v", want, again, err)
		}
	}
	for text, says := range map[string]string{
		"":                      "expected sqlite, sqlite:FILE or etcd://",
		"here.db":               "for the file write sqlite:here.db",
		"SQLITE":                "expected sqlite, ",
		"postgres://a:1/b":      "expected sqlite, ",
		"etcd:a:1":              "expected sqlite, ",
		"sqlite:":               "expected the name of a file",
		"sqlite:a/":             "expected the name of a file",
		"sqlite:a\x00b":         "expected the name of a file",
		"sqlite::memory:":       "not what SQLite calls one",
		"sqlite:file:a?mode=ro": "not what SQLite calls one",
		"etcd://":               `"" is not HOST or HOST:PORT`,
		"etcd://a\nb:1":         `is not HOST or HOST:PORT`,
		"etcd://u:p@a:1":        `"etcd://...@a:1" is no store: a password does not belong here`,
		"etcd://a:1?x=y":        "expected ca, cert, key or password_file",
		"etcd://a:1/p//q":       "prefix",
		"etcd://a:1/p\x1b":      "prefix",
	} {
		_, err := p.Locate(text)
		var bad *LocationError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), says) || strings.ContainsAny(err.Error(), "\n\x1b\x00") {
			t.Errorf("%q: %v, expected %q", text, err, says)
		}
	}
	memory := p.WithPersistence(spec.Persistence{Backend: spec.Memory})
	if _, err := memory.Locate("sqlite"); err == nil || !strings.Contains(err.Error(), "is in memory") {
		t.Errorf("the store of a project in memory: %v", err)
	}
	if l, err := memory.Locate("sqlite:a"); err != nil || l.own {
		t.Errorf("a file of a project in memory: %+v, %v", l, err)
	}
}

func FuzzLocate(f *testing.F) {
	for _, text := range []string{"sqlite", "sqlite:a/b", "etcd://a:1,[::1]:2/p/q", "etcd://a:1?#@", "sqlite:\xff\n"} {
		f.Add(text)
	}
	p := Project{Dir: "/p", State: "/p/.coppice"}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := p.Locate(text)
		var bad *LocationError
		switch {
		case err == nil:
			if again, err := p.Locate(l.String()); err != nil || again.String() != l.String() {
				t.Errorf("%q is %v, and that is %v, %v", text, l, again, err)
			}
			if l.file == "" && (len(l.etcd.Endpoints) == 0 || store.CheckKey(l.etcd.Prefix) != nil) {
				t.Errorf("%q is %+v", text, l)
			}
		case !errors.As(err, &bad) || strings.ContainsAny(err.Error(), "\n\x1b\x00"):
			t.Errorf("%q: %v", text, err)
		}
	})
}

func TestSameLocation(t *testing.T) {
	p := newProject(t)
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link, hard := filepath.Join(dir, "state"), filepath.Join(dir, "hard.db")
	if err := os.Symlink(p.State, link); err != nil {
		t.Fatal(err)
	}
	same := func(a, b string) bool {
		t.Helper()
		l, err := p.Locate(a)
		m, err2 := p.Locate(b)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if l.Same(m) != m.Same(l) {
			t.Errorf("%s and %s are the same in one direction", a, b)
		}
		return l.Same(m)
	}
	if !same("sqlite", "sqlite:"+link+"/state.db") {
		t.Error("a symbolic link makes another location of a missing file")
	}
	if err := os.WriteFile(p.Database(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(p.Database(), hard); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"sqlite", "sqlite", true},
		{"sqlite", "sqlite:" + link + "/state.db", true},
		{"sqlite", "sqlite:" + hard, true},
		{"sqlite", "sqlite:" + dir + "/other.db", false},
		{"sqlite", "etcd://a:1", false},
		{"etcd://a:1,b:1/p", "etcd://c:1,B:01/p", true},
		{"etcd://a:1/p", "etcd://a:2/p", false},
		{"etcd://a:1/p", "etcd://a:1/q", false},
		{"etcd://a:1/p", "etcd://a:1", false},
	} {
		if got := same(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

// Create makes what is missing, and discard removes it again. Open makes nothing.
func TestOpenLocation(t *testing.T) {
	p := newProject(t)
	for _, text := range []string{"sqlite", "sqlite:" + filepath.Join(t.TempDir(), "a.db")} {
		l, err := p.Locate(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Open(t.Context()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), l.file) {
			t.Errorf("open of %v: %v", l, err)
		}
		s, discard, err := l.Create(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "stop the daemon") {
			t.Errorf("open of a store that is in use: %v", err)
		}
		if err := errors.Join(s.Close(), discard()); err != nil {
			t.Error(err)
		}
		left, err := filepath.Glob(l.file + "*")
		if err != nil || !slices.Equal(left, []string{l.file + ".lock"}) {
			t.Errorf("left: %v, %v", left, err)
		}
		for range 2 { // the second time, nothing was made
			if s, discard, err = l.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := discard(); err != nil {
			t.Error(err)
		}
		if s, err = l.Open(t.Context()); err != nil {
			t.Errorf("the store was there before, and is gone: %v", err)
		} else if err := s.Close(); err != nil {
			t.Error(err)
		}
		if want := text != "sqlite"; (len(l.Setting()) == 2) != want {
			t.Errorf("%s: settings %q", text, l.Setting())
		}
	}
}
