package session

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// Looks share what the last check has found, and take a bounded share of a processor.
func TestPause(t *testing.T) {
	for took, pause := range map[time.Duration]time.Duration{
		0: minCheck, time.Millisecond: minCheck, 100 * time.Millisecond: 2 * time.Second, time.Hour: maxCheck,
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t)
			tree := newTree(agentcli.Claude, h.home)
			look := func(fresh bool) (n int) {
				tree.look(fresh, func(w *walk) { n = len(w.glob("*")) })
				return n
			}
			look(false)
			tree.took = took
			h.write("a", "")
			time.Sleep(pause - 1)
			if n := look(false); n != 0 {
				t.Errorf("%v: found before the pause is over", took)
			}
			time.Sleep(time.Nanosecond)
			if n := look(false); n != 1 {
				t.Errorf("%v: not found after the pause", took)
			}
			h.write("b", "")
			if n := look(true); n != 2 {
				t.Errorf("%v: not found by a fresh look", took)
			}
		})
	}
}

// As long as headers of recent files are not read, none is guessed to be that of the call.
func TestManyHeaders(t *testing.T) {
	each(t, func(t *testing.T, h *house, v vendor) {
		f := h.follow(v, "")
		h.begin(v, two, two, h.dir, began.Add(time.Second)) // is read first
		h.begin(v, one, one, h.dir, began.Add(-time.Second))
		h.age()
		f.fresh = true
		f.inspect(v.cli, func(w *walk) {
			w.tree.room = 1
			if f.choose(w.recentSince(began), ""); len(f.sessions) != 0 {
				t.Error("guessed without all headers")
			}
		})
		f.look(agentcli.Report{})
		h.expect(f, two, 0)
		if len(f.sessions) != 1 {
			t.Errorf("%d sessions", len(f.sessions))
		}
		f.inspect(v.cli, func(w *walk) {
			// Another one may be that of the call: the guess stays until that is known.
			w.tree.index.partial = true
			if f.choose(&w.tree.index, ""); len(f.sessions) != 1 {
				t.Error("the guess was dropped")
			}
			w.tree.index.begun = nil
			if f.choose(&w.tree.index, ""); len(f.sessions) != 1 {
				t.Error("the guess was dropped, and its header is not known yet")
			}
			w.tree.index.partial = false
			if f.choose(&w.tree.index, ""); len(f.sessions) != 0 {
				t.Error("the file is gone, and the guess stays")
			}
		})
	})
}

// A header is read when the file has it, without a change of the directory.
func TestHeaderLater(t *testing.T) {
	each(t, func(t *testing.T, h *house, v vendor) {
		name := v.file(h, one)
		h.write(name, "")
		if v.cli == agentcli.Gemini { // the directory comes last
			os.Remove(filepath.Join(h.home, ".gemini/tmp/work/.project_root"))
		}
		h.age()
		f := h.follow(v, "")
		head := v.head(h, one, one, h.dir, began.Add(time.Second))
		if v.cli == agentcli.Gemini {
			os.Remove(filepath.Join(h.home, ".gemini/tmp/work/.project_root"))
		}
		for _, part := range []string{head[:len(head)/2], head[len(head)/2:]} {
			f.look(agentcli.Report{})
			h.expect(f, "", 0)
			h.write(name, part)
			h.age()
		}
		if v.cli == agentcli.Gemini {
			f.look(agentcli.Report{})
			h.expect(f, "", 0)
			h.write(".gemini/tmp/work/.project_root", h.dir)
			h.age()
		}
		f.look(agentcli.Report{})
		h.expect(f, one, 0)
		f.inspect(v.cli, func(w *walk) {
			if len(w.tree.pending) != 0 {
				t.Errorf("still pending: %v", w.tree.pending)
			}
		})
	})
}

// A header whose fields are too long is none.
func TestLongHeader(t *testing.T) {
	v := vendors()[0]
	h := newHouse(t)
	long := "/" + strings.Repeat("x", maxField)
	text := v.head(h, one, one, long, began)
	if got := parseHeader(v.cli, strings.NewReader(text)); got.whole() || got.id != one {
		t.Errorf("%+v", got)
	}
	if got := parseHeader(v.cli, strings.NewReader(v.head(h, one, one, long[1:], began))); !got.whole() {
		t.Errorf("%+v", got)
	}
}

// Calls share the tree of their command line and home as long as they are followed.
func TestHomes(t *testing.T) {
	var homes Homes
	claude := homes.tree(agentcli.Claude, "/a")
	if homes.tree(agentcli.Claude, "/a") != claude {
		t.Error("a call has another tree in the same directory")
	}
	if homes.tree(agentcli.Codex, "/a") == claude || homes.tree(agentcli.Claude, "/b") == claude {
		t.Error("two directories are one")
	}
	runtime.GC()
	if homes.tree(agentcli.Claude, "/c"); len(homes.trees) != 2 || homes.tree(agentcli.Claude, "/a") != claude {
		t.Errorf("%d trees are kept", len(homes.trees))
	}
	if Follow(Call{}).call.Homes == nil {
		t.Error("a call alone has no homes")
	}
}

// Calls of different times use the same index.
func TestEarlierCall(t *testing.T) {
	each(t, func(t *testing.T, h *house, v vendor) {
		h.begin(v, one, one, h.dir, began.Add(time.Minute))
		var homes Homes
		later := time.Now().Add(time.Hour)
		for _, c := range []struct {
			began time.Time
			want  string
		}{{later, ""}, {began, one}, {later, ""}, {began.Add(2 * time.Minute), ""}} {
			f := Follow(Call{CLI: v.cli, Env: []string{"HOME=" + h.home}, Dir: h.dir, Began: c.began, Homes: &homes})
			f.look(agentcli.Report{})
			h.expect(f, c.want, 0)
			if since := f.trees[v.cli].index.since; c.began != later && !since.Equal(began) {
				t.Errorf("the index begins at %v", since)
			}
		}
	})
}

// A session that only a subagent has begun is that of another call.
func TestGuessSubagent(t *testing.T) {
	each(t, func(t *testing.T, h *house, v vendor) {
		if v.sub == nil {
			return
		}
		h.begin(v, two, one, h.dir, began.Add(time.Second))
		f := h.follow(v, "")
		f.look(agentcli.Report{})
		h.expect(f, "", 0)
	})
}

// Headers take bounded memory. Nothing is guessed without those that are left out.
func TestManyLongHeaders(t *testing.T) {
	v, h := vendors()[0], newHouse(t)
	h.begin(v, one, one, h.dir, began.Add(time.Second))
	h.tree(v).look(true, func(w *walk) {
		d := w.directory("projects/-work")
		w.read(d)
		long := strings.Repeat("x", maxField)
		for range 2 * maxHeld / maxField {
			h := &header{id: one, dir: long, began: time.Now()}
			d.entries = append(d.entries, &entry{name: "x.jsonl", time: time.Now(), header: h})
		}
		if x := w.recentSince(began); !x.partial || len(x.begun[long]) > maxHeld/maxField {
			t.Errorf("partial %v, %d headers", x.partial, len(x.begun[long]))
		}
	})
}

// Many calls are followed at once, by one look: each finds its own session, in its own time.
func TestManyFollowers(t *testing.T) {
	each(t, func(t *testing.T, h *house, v vendor) {
		const calls = 20
		var homes Homes
		var work sync.WaitGroup
		at := began.Add(time.Second)
		for i := range calls {
			dir := filepath.Join(h.dir, fmt.Sprint(i))
			id := fmt.Sprintf("%08d-2b0d-7290-a8af-7216c039fa2a", i)
			f := Follow(Call{
				CLI: v.cli, Env: []string{"HOME=" + h.home}, Dir: dir, Began: began, Homes: &homes,
			})
			name := v.file(&house{t, t.TempDir(), h.dir, 0}, id)
			if v.cli == agentcli.Gemini { // a directory for each working directory
				name = strings.Replace(name, "work", fmt.Sprint("work", i), 1)
				h.write(fmt.Sprintf(".gemini/tmp/work%d/.project_root", i), dir)
			}
			head := v.head(&house{t, t.TempDir(), h.dir, 0}, id, id, dir, at)
			work.Go(func() {
				f.Poll(agentcli.Report{})
				if err := appendFile(filepath.Join(h.home, name), head+v.used(id, int64(i)+1, at)); err != nil {
					t.Error(err)
				}
				f.Finish(agentcli.Report{})
				h.expect(f, id, int64(i)+1)
			})
		}
		work.Wait()
		if len(homes.trees) != 1 {
			t.Errorf("%d trees", len(homes.trees))
		}
	})
}
