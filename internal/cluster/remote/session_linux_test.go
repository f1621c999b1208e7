package remote

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/tmux"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/supervisor"
)

// The unfinished line of an agent comes while it changes, until the agent ends.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	l := sh("app/a", 1, `printf half; read x; printf " a line"; read x; exit 0`)
	l.Input = true
	s := start(t, w.far, l)
	var texts []string
	err := s.Unfinished(ctxOf(t), func(text string) {
		if len(texts) > 0 && texts[len(texts)-1] == text {
			return
		}
		texts = append(texts, text)
		if text == "half" || text == "half a line" {
			if err := s.Write(ctxOf(t), []byte("\n")); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || !slices.Contains(texts, "half") || !slices.Contains(texts, "half a line") {
		t.Errorf("%q, %v", texts, err)
	}
	await(t, "its end", s.Done())
	if err := s.Unfinished(ctxOf(t), func(string) {}); !errors.Is(err, runtime.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// A log is followed over a lost connection.
func TestFollowAgain(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	l := sh("app/a", 1, `while read x; do echo "$x"; done`)
	l.Input = true
	s := start(t, w.far, l)
	grew := make(chan struct{}, 1000)
	ended := make(chan error, 1)
	go func() { ended <- s.Follow(context.Background(), func() { grew <- struct{}{} }) }()
	for range 3 {
		<-grew
		w.cutAndAwait(t)
		<-grew // as it may have meanwhile
		for len(grew) > 0 {
			<-grew
		}
		until(t, s, "alive", alive)
		if err := s.Write(ctxOf(t), []byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < 3; {
		<-grew // of an earlier line, too
		lines, err := s.Peek(ctxOf(t), 9)
		if err != nil {
			t.Fatal(err)
		}
		n = len(lines)
	}
	s.Kill()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if lines, err := s.Peek(ctxOf(t), 9); err != nil || len(lines) != 3 {
		t.Errorf("%q, %v", lines, err)
	}
}

// An agent that reports its readiness by another way is ready when the node is told so.
func TestReady(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	l := sh("app/a", 1, forever)
	l.Ready = spec.Ready{Notify: true, Timeout: testTimeout}
	started := make(chan error, 1)
	go func() {
		_, err := w.Start(context.Background(), l)
		started <- err
	}()
	ctx := ctxOf(t)
	s, err := w.Adopt(ctx, "app/a")
	for err != nil && ctx.Err() == nil {
		s, err = w.Adopt(ctx, "app/a")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Ready(ctx, "app/a", 2); !errors.Is(err, runtime.ErrStale) {
		t.Errorf("of another incarnation: %v", err)
	}
	if err := w.Ready(ctx, "app/a", 1); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Error(err)
	}
	if err := s.AwaitReady(ctx); err != nil || !s.Observe().Ready {
		t.Errorf("%v, %+v", err, s.Observe())
	}
}

// A stop can be given a longer grace period, and a kill cuts it short.
func TestStopWithin(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	l := sh("app/a", 1, "trap 'sleep 0.5; exit 0' TERM; echo trapped; while :; do sleep 0.05; done")
	l.Grace, l.Ready = 10*time.Millisecond, spec.Ready{Log: "trapped", Timeout: testTimeout}
	s := start(t, w.far, l)
	s.StopWithin(testTimeout)
	await(t, "its end", s.Done())
	if e := s.Exit(); e.Kind != supervisor.ShutDown {
		t.Errorf("it has ended with %v", e)
	}
	l.Incarnation, l.Argv[2] = 2, "trap '' TERM; echo trapped; while :; do sleep 0.05; done"
	s = start(t, w.far, l)
	s.StopWithin(time.Hour)
	s.Kill()
	await(t, "its end", s.Done())
	if e := s.Exit(); e.Kind != supervisor.Killed {
		t.Errorf("it has ended with %v", e)
	}
}

// The log of another node is not taken for a file of this one.
func TestLog(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	if file, err := w.Runtime.Log("app/a"); !errors.Is(err, runtime.ErrUnsupported) || !strings.Contains(err.Error(),
		"node n2") {
		t.Errorf("%q, %v", file, err)
	}
}

// The screen of an agent that draws on it comes from the other node.
func TestScreen(t *testing.T) {
	t.Parallel()
	if _, err := tmux.Version(t.Context()); err != nil {
		exectest.Missing(t, err)
	}
	dir, err := os.MkdirTemp("", "remote")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	local, err := tmux.Open(tmux.Options{Dir: dir + "/run"})
	if err != nil {
		t.Fatal(err)
	}
	r := newPair(t).far(t, local)
	l := sh("app/a", 1, `printf '\033[?1049h\033[Hdrawn'; echo; exec sleep 100000`)
	s := start(t, r, l)
	defer func() {
		s.Kill()
		await(t, "its end", s.Done())
		if err := r.Remove(ctxOf(t), "app/a"); err != nil {
			t.Error(err)
		}
	}()
	lines, paints := s.Screen(ctxOf(t), 50)
	for late := time.Now().Add(testTimeout); !slices.Contains(lines, "drawn") && time.Now().Before(late); {
		lines, paints = s.Screen(ctxOf(t), 50)
	}
	if !paints || !slices.Contains(lines, "drawn") {
		t.Errorf("%q, %v", lines, paints)
	}
}
