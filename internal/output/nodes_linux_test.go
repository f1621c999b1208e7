package output

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/runtimetest"
	"github.com/coppice-dev/coppice/internal/runtime/shim"
	"github.com/coppice-dev/coppice/internal/token"
)

// newShims returns nodes with real agents.
func newShims(t *testing.T, n int) []*machine {
	var all []runtime.Runtime
	for range n {
		dir := t.TempDir() + "/run"
		r, err := shim.Open(shim.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		all = append(all, r)
	}
	return newMachines(t, all...)
}

// run starts t/a on a node as its next incarnation, which writes what it reads.
func (c *controller) run(t *testing.T, node string, n uint64) runtime.Session {
	t.Helper()
	return c.start(t, node, n, `while read x; do echo "$x"; done`)
}

func (c *controller) start(t *testing.T, node string, n uint64, script string) runtime.Session {
	t.Helper()
	r := c.here.local
	if far := c.far[node]; far != nil {
		r = far
	}
	s, err := r.Start(ctxOf(t), runtime.Launch{
		Path: "t/a", Incarnation: n, SpecHash: "f", Dir: "/", Grace: 5 * time.Second, Input: true,
		Argv: []string{"/bin/sh", "-c", script},
		Env:  append(proc.Environ(nil, proc.Self{Agent: "t/a", Incarnation: n}), runtimetest.Env()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		<-s.Done()
		if err := r.Remove(context.Background(), "t/a"); err != nil {
			t.Error(err)
		}
	})
	c.move(node, "t/a", s)
	return s
}

func write(t *testing.T, s runtime.Session, text string) {
	t.Helper()
	if err := s.Write(ctxOf(t), []byte(text+"\n")); err != nil {
		t.Fatal(err)
	}
}

// A follower gets each line once while an agent moves between nodes, also if it begins again and again.
func TestFollowOverNodes(t *testing.T) {
	t.Parallel()
	machines := newShims(t, 2)
	c := lead(t, machines[0], machines, nil, "t/a")
	after := make(map[string]string)
	var got, want []string
	places := []string{"n2", "n1", "n2", "n1"}
	for n, node := range places {
		s := c.run(t, node, uint64(n+1))
		for i := range 3 {
			text := fmt.Sprint(node, ".", n, ".", i)
			want = append(want, text)
			if i < 2 {
				write(t, s, text)
			}
			q := Query{Lines: -1, Follow: true, After: after}
			for l, err := range c.Logs(ctxOf(t), q) {
				if err != nil {
					t.Fatal(err)
				}
				if l.Position != "" {
					after[l.Path] = l.Position
				}
				if l.Live && i == 2 {
					write(t, s, text)
				}
				if l.Between == nil && !l.Live {
					got = append(got, l.Line)
				}
				if len(got) > 0 && got[len(got)-1] == text {
					break
				}
			}
		}
		s.Kill()
		<-s.Done()
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	all, _ := c.collect(t, Query{Lines: -1, Follow: true})
	if all = slices.DeleteFunc(all, func(s string) bool { return s == "" }); !slices.Equal(all, want) {
		t.Errorf("from the beginning: %q, want %q", all, want)
	}
}

// One follower sees an agent move to a node, and back.
func TestFollowMoves(t *testing.T) {
	t.Parallel()
	machines := newShims(t, 2)
	c := lead(t, machines[0], machines, nil, "t/a")
	var got []string
	var s runtime.Session
	places := []string{"n1", "n2", "n1", "n2"}
	begin := func() {
		n := len(got)
		if s != nil {
			s.Kill()
			<-s.Done()
		}
		s = c.run(t, places[n], uint64(n+1))
		write(t, s, places[n])
	}
	for l, err := range c.Logs(ctxOf(t), Query{Lines: 10, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case l.Live:
			begin()
		case l.Between == nil:
			if got = append(got, l.Line); len(got) == len(places) {
				if !slices.Equal(got, places) {
					t.Errorf("%q, want %q", got, places)
				}
				return
			}
			begin()
		}
	}
	t.Errorf("it has ended with %q", got)
}

// Live passes on what an agent writes on another node, over lost connections.
func TestLiveOnNode(t *testing.T) {
	t.Parallel()
	machines := newShims(t, 2)
	c := lead(t, machines[0], machines, nil, "t/a")
	s := c.run(t, "n2", 1)
	lines := make(chan string, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Live(context.Background(), token.Caller{Path: "t/a", Incarnation: 1}, time.Time{}, s,
			func(text string) { lines <- text })
	}()
	var got []string
	for i := range 5 {
		if i > 0 {
			machines[1].setCut(true)
			machines[1].setCut(false)
		}
		text := fmt.Sprint("line ", i)
		err := s.Write(ctxOf(t), []byte(text+"\n"))
		for ctx := ctxOf(t); err != nil && ctx.Err() == nil; {
			err = s.Write(ctx, []byte(text+"\n"))
		}
		if err != nil {
			t.Fatal(err)
		}
		select {
		case l := <-lines:
			got = append(got, l)
		case <-time.After(testTimeout):
			t.Fatalf("%q never came: %q", text, got)
		}
	}
	s.Kill()
	if err := <-ended; err != nil || strings.Join(got, " ") != "line 0 line 1 line 2 line 3 line 4" {
		t.Errorf("%q, %v", got, err)
	}
}

// The line that an agent on another node is writing is the last one, and is told while it changes.
func TestUnfinishedOnNode(t *testing.T) {
	t.Parallel()
	machines := newShims(t, 2)
	c := lead(t, machines[0], machines, nil, "t/a")
	s := c.start(t, "n2", 1, `echo whole; printf half; read x; printf " a line"; read x; echo; exec sleep 100000`)
	var texts []string
	for l, err := range c.Unfinished(ctxOf(t), "t/a") {
		if err != nil {
			t.Fatal(err)
		}
		if l.Text == "" && len(texts) == 0 || l.Text == "half a" {
			continue
		}
		texts = append(texts, l.Text)
		if l.Text != "" {
			got, _ := c.collect(t, Query{Lines: 2})
			if want := "whole|" + l.Text; strings.Join(got[max(0, len(got)-2):], "|") != want {
				t.Errorf("%q, want %s", got, want)
			}
			write(t, s, "on")
		} else {
			break
		}
	}
	if !slices.Equal(texts, []string{"half", "half a line", ""}) {
		t.Errorf("%q", texts)
	}
}
