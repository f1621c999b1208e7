package shim

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// The files of a launch are there when the agent starts, and those of an agent that runs are never replaced.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir, files := slotsDir(t), filepath.Join(t.TempDir(), "files")
	another := func() *Runtime { return openWith(t, Options{Dir: dir, Files: files}) }
	r := another()
	launch := func(n uint64, request string) runtime.Launch {
		l := sh("app/a", n, `cat "$`+proc.EnvFiles+`/request" >"$`+proc.EnvFiles+`/answer" && echo done && exec sleep 100000`)
		l.Ready.Log = "done"
		l.Files = &runtime.Files{Write: map[string][]byte{"request": []byte(request)}, Remove: []string{"answer"}}
		return l
	}
	want := func(r *Runtime, n uint64, text string) {
		t.Helper()
		for _, name := range []string{"request", "answer"} {
			if got, err := r.ReadFile(ctxOf(t), "app/a", n, name); err != nil || string(got) != text {
				t.Errorf("%s of %d: %q, %v, want %q", name, n, got, err, text)
			}
		}
	}
	s, err := r.Start(ctxOf(t), launch(1, "one"))
	if err != nil {
		t.Fatal(err)
	}
	want(r, 1, "one")
	for _, other := range []*Runtime{r, another()} { // another daemon does not know what runs
		if _, err := other.Start(ctxOf(t), launch(2, "two")); !errors.Is(err, runtime.ErrBusy) {
			t.Errorf("%v", err)
		}
		if _, err := other.Start(ctxOf(t), launch(1, "two")); err == nil {
			t.Error("an incarnation was started twice")
		}
		want(other, 1, "one")
	}
	end := func(s runtime.Session) {
		s.Kill()
		wait(t, "its end", s.Done())
	}
	end(s)
	if _, err := another().Start(ctxOf(t), launch(1, "two")); !errors.Is(err, runtime.ErrStale) {
		t.Errorf("%v", err)
	}
	want(r, 1, "one")
	if s, err = r.Start(ctxOf(t), launch(2, "two")); err != nil {
		t.Fatal(err)
	}
	want(r, 2, "two")
	if _, err := r.ReadFile(ctxOf(t), "app/a", 1, "request"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	end(s)
	bad := launch(3, "three")
	bad.Files.Write["../up"] = nil
	if _, err := r.Start(ctxOf(t), bad); !errors.Is(err, proc.ErrCommand) || !strings.Contains(err.Error(), `"../up"`) {
		t.Errorf("%v", err)
	}
	if s, err = r.Start(ctxOf(t), launch(4, "four")); err != nil {
		t.Fatal(err)
	}
	want(r, 4, "four")
	end(s)
	if err := r.Remove(ctxOf(t), "app/a"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(files); err != nil || len(left) != 0 {
		t.Errorf("after the agent was removed: %v, %v", left, err)
	}
}

// A runtime without a directory for files starts nothing that needs some.
func TestNoFiles(t *testing.T) {
	t.Parallel()
	r := open(t, slotsDir(t))
	l := sh("app/a", 1, "exit 0")
	l.Files = &runtime.Files{}
	if _, err := r.Start(ctxOf(t), l); !errors.Is(err, proc.ErrCommand) {
		t.Errorf("%v", err)
	}
	if _, err := r.ReadFile(ctxOf(t), "app/a", 0, "f"); !errors.Is(err, runtime.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
