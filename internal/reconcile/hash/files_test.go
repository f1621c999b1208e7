package hash

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

// newHasher is a lookout that counts its news.
func newHasher(t *testing.T) (*fileHasher, chan struct{}) {
	news := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	return newFileHasher(func(f func(context.Context)) { wg.Go(func() { f(ctx) }) }, func() { news <- struct{}{} }), news
}

func awaitNews(t *testing.T, news chan struct{}, what string) {
	t.Helper()
	select {
	case <-news:
	case <-time.After(time.Minute):
		t.Fatal("there is no news: " + what)
	}
}

func TestFileHasher(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	l, news := newHasher(t)
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]bool{file: false}
	hashes := map[string]string{}
	look := func(what string) string {
		t.Helper()
		l.refresh(all)
		awaitNews(t, news, what)
		hash := l.hash(file)
		if hash == spec.Unread {
			t.Fatalf("%s: it is not known", what)
		}
		hashes[what] = hash
		return hash
	}
	if l.hash(file) != spec.Unread {
		t.Error("a file that was never hashed is known")
	}
	look("missing")
	put("one")
	one := look("one")
	put("two")
	look("two")
	put("one")
	if look("one again") != one {
		t.Error("the same content has another hash")
	}
	delete(hashes, "one again")
	large := strings.Repeat("x", 3*maxContent)
	put(large)
	look("large")
	put(large[1:] + "y")
	look("another end")
	put("y" + large[1:])
	look("another beginning")
	put(large + "x")
	look("larger")
	os.Remove(file)
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	look("a directory")
	os.Remove(file)
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	look("a pipe without a writer")
	seen := map[string]string{}
	for what, hash := range hashes {
		if other := seen[hash]; other != "" {
			t.Errorf("%q looks like %q", what, other)
		}
		seen[hash] = what
	}
	l.refresh(nil)
	if l.hash(file) != spec.Unread {
		t.Error("a file that was removed is still known")
	}
}

// A file of the environment that is gone, or cannot be understood, counts as what it
// was before: no agent is to be started again to fail with it.
func TestFileHasherKeepsEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.env")
	l, _ := newHasher(t)
	known := func(text string) string {
		t.Helper()
		if text == "" {
			os.Remove(file)
		} else if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l.await(ctx, map[string]bool{file: true})
		return l.hash(file)
	}
	if hash := known("no variable"); hash != spec.Unread {
		t.Errorf("what was never right: %q", hash)
	}
	one := known("A=1\n")
	if one == spec.Unread || known("A=1\nB\n") != one || known("") != one {
		t.Error("what is not right has become another file")
	}
	if two := known("A=2\n"); two == one || two == spec.Unread {
		t.Errorf("a change is %q", two)
	}
}

// What looks as it did is not read again; a time that is fresh proves nothing.
func TestContentsUnread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(file, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, hash := contents(file, nil, spec.Unread)
	if _, again := contents(file, info, "known"); again != hash {
		t.Errorf("a file that has just changed was not read: %s", again)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	info, _ = contents(file, info, hash)
	if _, again := contents(file, info, "known"); again != "known" {
		t.Errorf("a file that has not changed for long was read: %s", again)
	}
}

// A file that takes forever delays no other: its slot becomes free.
func TestFileHasherHangs(t *testing.T) {
	l, news := newHasher(t)
	for range maxParallel { // all turns are taken by looks that hang
		l.slots <- struct{}{}
	}
	file := filepath.Join(t.TempDir(), "a")
	l.refresh(map[string]bool{file: false})
	for range 100 {
		l.refresh(map[string]bool{file: false}) // which does not wait, and looks once
	}
	for range maxParallel {
		<-l.slots
	}
	awaitNews(t, news, "it is not there")
	if len(news) > 0 {
		t.Error("it was looked at more than once")
	}
}
