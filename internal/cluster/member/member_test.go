package member

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// Damaged files of a node are errors that name the file and say what to do, and that are not those of a machine
// without a fleet.
func TestLoadDamaged(t *testing.T) {
	s, dir := newStore(t), nodeDir(t)
	m := mustInit(t, dir, s, location(t, "1"), here("a"))
	files := filesOf(t, dir)
	good := files[nodeFile]
	replace := func(old, by string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s has no %s", good, old)
		}
		return strings.Replace(good, old, by, 1)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	ca := m.node.location.CA
	for name, text := range map[string]struct{ text, says string }{
		"cut off":           {good[:len(good)/2], "JSON"},
		"empty":             {"", "JSON"},
		"binary":            {"\x00\xff", "JSON"},
		"more after it":     {good + "{}", "JSON"},
		"an array":          {"[]", "JSON"},
		"huge":              {good + strings.Repeat(" ", maxNodeFile), "larger than"},
		"no version":        {replace(`"version": 1`, `"version": 0`), "version is missing"},
		"a text as version": {replace(`"version": 1`, `"version": "1"`), "JSON"},
		"an unknown field":  {replace(`"name"`, `"nice": 1, "name"`), "unknown fields"},
		"another kind":      {replace(`":7420"`, `7420`), "listen"},
		"a bad name":        {replace(`"a"`, `"A"`), "capital"},
		"another name":      {replace(`"a"`, `"b"`), "node a"},
		"a bad listener":    {replace(`":7420"`, `":port"`), "1 to 65535"},
		"a bad address":     {replace(`"a:7420"`, `"0.0.0.0:7420"`), "all addresses"},
		"a label":           {replace(`"listen"`, `"labels": {"\u0000": "b"}, "listen"`), "label"},
		"a capacity":        {replace(`"listen"`, `"capacity": -1, "listen"`), "capacity is -1"},
		"no store":          {replace(`etcds://`, `sqlite://`), "URL of the store"},
		"a file elsewhere":  {replace(ca, "/etc/passwd"), "/etc/passwd"},
		"a file above":      {replace(ca, "store-ca-..%2F..%2Fx"), "store-ca-../../x"},
		"another file":      {replace(ca, "key.pem"), "key.pem"},
		"a missing file":    {replace(ca, "store-ca-0123"), path("store-ca-0123")},
	} {
		if err := os.WriteFile(path(nodeFile), []byte(text.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(dir)
		wantError(t, name, err, text.says, nodeFile, "coppice cluster init")
		if errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the machine seems to be no node: %v", name, err)
		}
	}
	if err := os.WriteFile(path(nodeFile), []byte(replace(`"version": 1`, `"version": 2, "new": 1`)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(dir)
	wantError(t, "a newer version", err, path(nodeFile), "version 2", "newer version of Coppice")
	if strings.Contains(err.Error(), "remove") {
		t.Errorf("a newer version: %v", err)
	}
	if err := os.WriteFile(path(nodeFile), []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}

	for file := range files {
		if file == lockFile {
			continue
		}
		restore := func() {
			t.Helper()
			err := errors.Join(os.RemoveAll(path(file)), os.WriteFile(path(file), []byte(files[file]), 0o600))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Load(dir); err != nil {
				t.Errorf("as it was: %v", err)
			}
		}
		wrong := func(what string, do func() error, says ...string) {
			t.Helper()
			if err := do(); err != nil {
				t.Fatal(err)
			}
			_, err := Load(dir)
			wantError(t, file+" "+what, err, says...)
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s %s: the machine seems to be no node: %v", file, what, err)
			}
			restore()
		}
		if file != "certificate.pem" { // which is no secret
			wrong("that others read", func() error { return os.Chmod(path(file), 0o644) }, file, "chmod 600")
		}
		wrong("removed", func() error { return os.Remove(path(file)) }, "coppice cluster init")
		wrong("a directory", func() error {
			return errors.Join(os.Remove(path(file)), os.Mkdir(path(file), 0o700))
		}, file)
		wrong("a link", func() error {
			target := filepath.Join(t.TempDir(), "target")
			return errors.Join(os.Rename(path(file), target), os.Symlink(target, path(file)))
		}, file, "symbolic link")
		wrong("cut off", func() error { return os.Truncate(path(file), int64(len(files[file])/2)) }, file)
		wrong("changed", func() error {
			return os.WriteFile(path(file), []byte(strings.ToUpper(files[file])+"\n"), 0o600)
		}, file)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(link); !errors.As(err, new(*private.Error)) {
		t.Errorf("a link to the directory: %v", err)
	}
	if _, err := Init(t.Context(), link, s, location(t, "1"), here("a")); err == nil {
		t.Error("init through a link")
	}
}

// Settings are no others than those that Init has checked, whatever the text.
func FuzzNode(f *testing.F) {
	l, err := json.Marshal(stored{nodeVersion, "a", Settings{":1", "a:1", map[string]string{"a": "b"}, 1},
		"etcds://u@h:1/p?ca=store-ca-01&password_file=store-password-02"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(l)
	f.Add([]byte(`{"version":1,"version":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := parseNode(text)
		if err != nil {
			return
		}
		if err := n.settings.check(); err != nil {
			t.Error(err)
		}
		for kind, name := range namesIn(&n.location) {
			if *name != "" && (filepath.Base(*name) != *name || !strings.HasPrefix(*name, storePrefix+kind+"-")) {
				t.Errorf("the file %q", *name)
			}
		}
	})
}

// A bundle has the files that its URL names, and no others, whatever the text.
func FuzzBundle(f *testing.F) {
	for _, text := range []string{
		`{"version":1,"store":"etcd://a"}`,
		`{"version":1,"store":"etcds://u@a?ca=ca&cert=cert&key=key&password_file=password",
		  "files":{"ca":"YQ==","cert":"YQ==","key":"YQ==","password":"YQ=="}}`,
		`{"version":1,"store":"etcds://a?ca=../ca","files":{"../ca":"YQ=="}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, files, err := parseBundle(text)
		if err != nil {
			return
		}
		named := 0
		for kind, name := range namesIn(&l) {
			if *name == "" {
				continue
			}
			if named++; *name != kind || len(files[kind]) == 0 {
				t.Errorf("%s is %q with %q", kind, *name, files[kind])
			}
		}
		if named != len(files) {
			t.Errorf("%d files are named, and there are %d", named, len(files))
		}
		again, err := encodeBundle(l, files)
		if err != nil {
			return // too large in this form
		}
		if l2, files2, err := parseBundle(again); err != nil || l2.String() != l.String() || len(files2) != len(files) {
			t.Errorf("%s: %v", again, err)
		}
	})
}

func TestBundleRefuses(t *testing.T) {
	for text, says := range map[string]string{
		`{"version":1,"store":"etcd://a"`:                                             "JSON",
		`{"store":"etcd://a"}`:                                                        "version is missing",
		`{"version":2,"store":"etcd://a"}`:                                            "newer version",
		`{"version":1,"store":"etcd://a","run":"x"}`:                                  "unknown fields",
		`{"version":1,"store":"sqlite:x"}`:                                            "its URL",
		`{"version":1,"store":"etcds://a?ca=ca"}`:                                     "the file ca is missing",
		`{"version":1,"store":"etcds://a?ca=ca","files":{"ca":""}}`:                   "the file ca is missing",
		`{"version":1,"store":"etcds://a?ca=ca","files":{"ca":"YQ==","cert":"YQ=="}}`: "a file cert",
		`{"version":1,"store":"etcds://a?ca=ca","files":{"ca":"YQ==","../x":"YQ=="}}`: `a file "../x"`,
		`{"version":1,"store":"etcds://a?ca=/etc/ca","files":{"ca":"YQ=="}}`:          `"/etc/ca"; expected ca`,
		`{"version":1,"store":"etcds://a?ca=ca","files":{"ca":"not base64"}}`:         "base64",
		`{"version":1,"store":"etcds://a?ca=ca","files":{"ca":"YQ=="}}` + huge(1<<20): "bytes",
	} {
		_, _, err := parseBundle([]byte(text))
		if len(text) > 100 {
			text = text[:100]
		}
		wantError(t, text, err, says)
	}
}

func huge(n int) string { return strings.Repeat(" ", n) }

func TestIsLocal(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "localhost:1": true,
		"LOCALHOST.:1": true, "a.localhost:1": true, "0.0.0.0:1": true, "[::]:1": true, "localhost.localdomain:1": true,
		"10.0.0.1:1": false, "a:1": false, "localhosts:1": false, "[fe80::1]:1": false, "nothing": false,
	} {
		if got := IsLocal(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

func TestApply(t *testing.T) {
	old := Settings{":7420", "a:7420", map[string]string{"x": "y"}, 2}
	for name, c := range map[string]struct {
		before Settings
		Change
		listen, advertise string
	}{
		"new":                 {Settings{}, Change{Hostname: "h.x"}, ":7420", "h.x:7420"},
		"new at a port":       {Settings{}, Change{Hostname: "h", Listen: ":1"}, ":1", "h:1"},
		"new at an address":   {Settings{}, Change{Hostname: "h", Listen: "10.0.0.1:1"}, "10.0.0.1:1", "10.0.0.1:1"},
		"new at all":          {Settings{}, Change{Hostname: "h", Listen: "[::]:1"}, "[::]:1", "h:1"},
		"new, local":          {Settings{}, Change{Advertise: "127.0.0.1:7420"}, ":7420", "127.0.0.1:7420"},
		"as it is":            {old, Change{Hostname: "h"}, ":7420", "a:7420"},
		"another port":        {old, Change{Listen: ":1"}, ":1", "a:1"},
		"another address":     {old, Change{Advertise: "b:2"}, ":7420", "b:2"},
		"a port of its own":   {Settings{Listen: ":1", Advertise: "a:2"}, Change{Listen: ":3"}, ":3", "a:2"},
		"both":                {old, Change{Listen: ":1", Advertise: "b:2"}, ":1", "b:2"},
		"an IPv6 address":     {Settings{Listen: ":1", Advertise: "[::5]:1"}, Change{Listen: ":2"}, ":2", "[::5]:2"},
		"the name of a host":  {Settings{}, Change{Listen: "node.x:1"}, "node.x:1", "node.x:1"},
		"labels are no ports": {old, Change{Labels: map[string]string{}}, ":7420", "a:7420"},
	} {
		got, err := c.apply(c.before)
		if err != nil || got.Listen != c.listen || got.Advertise != c.advertise {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	got, err := Change{Labels: map[string]string{}}.apply(old)
	if err != nil || len(got.Labels) > 0 || got.Capacity != 2 {
		t.Errorf("without labels: %+v, %v", got, err)
	}
}

func TestParseLabels(t *testing.T) {
	got, err := ParseLabels([]string{"a=b=c", "x/y="})
	if err == nil {
		t.Errorf("a value with =: %v", got)
	}
	got, err = ParseLabels([]string{"a=b", "x/y="})
	if err != nil || len(got) != 2 || got["a"] != "b" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ParseLabels([]string{""}); got == nil || len(got) != 0 || err != nil {
		t.Errorf("none: %v, %v", got, err)
	}
	for _, wrong := range [][]string{{"a"}, {"=b"}, {"a=1", "a=2"}, {"a b=c"}, {"a=\n"}, {"a=b", ""}} {
		if got, err := ParseLabels(wrong); !errors.As(err, new(*InvalidError)) {
			t.Errorf("%q: %v, %v", wrong, got, err)
		}
	}
}

// The first project of a store is that of the fleet; another one is refused.
func TestCheckProject(t *testing.T) {
	t.Parallel()
	s := memory.New()
	defer s.Close()
	for _, name := range []string{"garden", "garden"} {
		if err := CheckProject(t.Context(), s, name, "a.toml"); err != nil {
			t.Error(err)
		}
	}
	err := CheckProject(t.Context(), s, "orchard", "b.toml")
	const other = `the fleet runs project "garden", and b.toml is project "orchard"`
	if err == nil || !strings.Contains(err.Error(), other) {
		t.Error(err)
	}
	put := []store.Op{{Kind: store.Put, Key: projectKey, Value: []byte("{")}}
	if _, err := s.Apply(t.Context(), store.Fence{}, nil, put); err != nil {
		t.Fatal(err)
	}
	err = CheckProject(t.Context(), s, "garden", "a.toml")
	if err == nil || !strings.Contains(err.Error(), projectKey+" in the store, is damaged") {
		t.Error(err)
	}
}
