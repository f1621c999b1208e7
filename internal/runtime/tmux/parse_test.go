package tmux

import (
	"encoding/base64"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
	"github.com/coppice-dev/coppice/supervisor"
)

func TestJudge(t *testing.T) {
	rec := &record{Pane: "%3", Agent: proc.Identity{PID: 10}, Server: proc.Identity{PID: 5}}
	silent := answer{err: errors.New("no answer")}
	with := func(p ...paneInfo) answer { return answer{server: 5, all: p} }
	other := answer{server: 6, all: []paneInfo{{id: "%3", pid: 10, ended: true}}}
	ended := paneInfo{id: "%3", pid: 10, status: 7, dead: true, ended: true}
	const (
		U, A, D = proc.Unknown, proc.Alive, proc.Dead
	)
	for name, c := range map[string]struct {
		e       evidence
		life    runtime.Life
		pending bool
		cutOff  bool
		kind    supervisor.ExitKind
	}{
		"recorded, whatever else is known":    {evidence{end: &wire.End{}, agent: U, server: A, answer: silent}, runtime.Dead, false, false, supervisor.NoExit},
		"agent cannot be looked at":           {evidence{agent: U, server: A, answer: with(ended)}, runtime.Unknown, false, false, 0},
		"lives":                               {evidence{agent: A, server: A, answer: with(paneInfo{id: "%3", pid: 10})}, runtime.Alive, false, false, 0},
		"lives, its session was closed":       {evidence{agent: A, server: A, answer: with()}, runtime.Alive, false, false, 0},
		"lives, server silent":                {evidence{agent: A, server: A, answer: silent}, runtime.Unknown, false, false, 0},
		"lives, server cannot be looked at":   {evidence{agent: A, server: U, answer: silent}, runtime.Unknown, false, false, 0},
		"lives, another server answers":       {evidence{agent: A, server: A, answer: other}, runtime.Unknown, false, false, 0},
		"lives, server dead":                  {evidence{agent: A, server: D, answer: silent}, runtime.Unknown, false, true, 0},
		"lives, server dead, there is a new":  {evidence{agent: A, server: D, answer: other}, runtime.Unknown, false, true, 0},
		"lives, pid of the server is another": {evidence{agent: A, server: D, answer: with(ended)}, runtime.Unknown, false, true, 0},
		"dead, server silent":                 {evidence{agent: D, server: A, answer: silent}, runtime.Unknown, false, false, 0},
		"dead, server cannot be looked at":    {evidence{agent: D, server: U, answer: silent}, runtime.Unknown, false, false, 0},
		"dead, server dead":                   {evidence{agent: D, server: D, answer: silent}, runtime.Dead, false, false, supervisor.Lost},
		"dead, server dead, there is a new":   {evidence{agent: D, server: D, answer: other}, runtime.Dead, false, false, supervisor.Lost},
		"dead, seen by tmux":                  {evidence{agent: D, server: A, answer: with(ended)}, runtime.Dead, false, false, supervisor.Failure},
		"dead, not yet seen by tmux":          {evidence{agent: D, server: A, answer: with(paneInfo{id: "%3", pid: 10})}, runtime.Unknown, true, false, 0},
		"dead, its session was closed":        {evidence{agent: D, server: A, answer: with(paneInfo{id: "%4", pid: 10})}, runtime.Dead, false, false, supervisor.Lost},
		"dead, pane used by another program":  {evidence{agent: D, server: A, answer: with(paneInfo{id: "%3", pid: 11})}, runtime.Dead, false, false, supervisor.Lost},
	} {
		c.e.rec = rec
		v := judge(c.e)
		if v.life != c.life || v.pending != c.pending || v.cutOff != c.cutOff || (v.why == nil) != (v.life != runtime.Unknown) {
			t.Errorf("%s: %+v", name, v)
		}
		if v.life == runtime.Dead && v.end == nil {
			if e := v.exit(proc.Asked{}, nil); e.Kind != c.kind {
				t.Errorf("%s: exit = %v", name, e)
			}
		}
	}
}

func TestExit(t *testing.T) {
	term := proc.Asked{Stop: true, Sent: 1 << 15}
	for _, c := range []struct {
		p     paneInfo
		asked proc.Asked
		want  supervisor.ExitKind
	}{
		{paneInfo{status: 0}, proc.Asked{}, supervisor.Normal},
		{paneInfo{status: 255}, proc.Asked{}, supervisor.Failure},
		{paneInfo{status: -1, signal: syscall.SIGTERM}, proc.Asked{}, supervisor.Failure},
		{paneInfo{status: -1, signal: syscall.SIGTERM}, term, supervisor.ShutDown},
		{paneInfo{status: -1, signal: syscall.SIGKILL}, proc.Asked{}, supervisor.Killed},
		{paneInfo{status: -1}, proc.Asked{}, supervisor.Failure}, // before tmux 3.3
		{paneInfo{status: -1}, term, supervisor.ShutDown},
		{paneInfo{status: -1}, proc.Asked{Stop: true, Kill: true}, supervisor.Killed},
	} {
		if e := (verdict{pane: &c.p}).exit(c.asked, nil); e.Kind != c.want {
			t.Errorf("%+v after %+v: %v", c.p, c.asked, e)
		}
	}
	var ee *proc.ExitError
	if e := (verdict{pane: &paneInfo{status: 7}}).exit(proc.Asked{}, []string{"last"}); !errors.As(e.Err, &ee) || ee.Code != 7 || len(ee.LastOutput) != 1 {
		t.Errorf("%#v", e.Err)
	}
	rec := &record{StartedAt: time.Unix(100, 5)}
	now := time.Unix(200, 0)
	for _, c := range []struct{ at, want time.Time }{
		{time.Time{}, now}, {time.Unix(199, 0), now}, {time.Unix(150, 0), time.Unix(150, 0)}, {time.Unix(100, 0), rec.StartedAt},
	} {
		if got := (verdict{pane: &paneInfo{at: c.at}}).at(rec, now); !got.Equal(c.want) {
			t.Errorf("ended at %v by tmux: %v, want %v", c.at, got, c.want)
		}
	}
}

func TestVersions(t *testing.T) {
	for v, old := range map[string]bool{
		"3.3a": false, "3.2": false, "3.1c": true, "2.9": true, "1.8": true, "4.0": false, "3.10": false,
		"next-3.6": false, "next-3.1": true, "master": false, "openbsd-7.4": false, "3.2-rc2": false, "": false,
	} {
		if tooOld(v) != old {
			t.Errorf("version %q is too old: %v", v, !old)
		}
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := Version(t.Context()); !errors.Is(err, ErrTmux) || !strings.Contains(err.Error(), "install") {
		t.Errorf("without tmux: %v", err)
	}
	exectest.Write(t, filepath.Join(dir, "tmux"), "#!/bin/sh\necho tmux 2.8\n")
	if _, err := Version(t.Context()); !errors.Is(err, ErrTmux) || !strings.Contains(err.Error(), "2.8") {
		t.Errorf("with an old tmux: %v", err)
	}
	r := open(t, t.TempDir())
	if _, err := r.Start(t.Context(), sh("app/a", 1, "true")); !errors.Is(err, ErrTmux) {
		t.Errorf("start with an old tmux: %v", err)
	}
	if all, err := r.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("list with an old tmux: %v, %v", all, err)
	}
}

func TestParsePanes(t *testing.T) {
	got, err := parsePanes("12\n" +
		"12|%0|100|0||||0|1|80|24|0|plain\n" +
		"12|%1|101|1|3||1700000000|0|0|100|30|2|a|b\n" +
		"12|%2|102|1||11||1|0|80|24|0|\n" +
		"12|%3|103|0||TERM||0|0|80|24|0|x\n")
	want := answer{server: 12, all: []paneInfo{
		{session: "plain", id: "%0", pid: 100, status: -1, width: 80, height: 24},
		{session: "a|b", id: "%1", pid: 101, dead: true, ended: true, status: 3, at: time.Unix(1700000000, 0), width: 100, height: 30, attached: 2},
		{id: "%2", pid: 102, dead: true, ended: true, status: -1, signal: 11, screen: true, width: 80, height: 24},
		{session: "x", id: "%3", pid: 103, ended: true, status: -1, signal: syscall.SIGTERM, screen: true, width: 80, height: 24},
	}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(answer{}, paneInfo{}), cmpopts.EquateErrors()); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for _, bad := range []string{"", "x\n", "0\n", "-3\n", "12\nwhat\n", "12\n12|%0|abc|0||||0|1|80|24|0|x\n", "12\n12|%0|1|0|x|||0|1|80|24|0|x\n"} {
		if a, err := parsePanes(bad); err == nil {
			t.Errorf("%q is an answer: %+v", bad, a)
		}
	}
}

func FuzzParsePanes(f *testing.F) {
	f.Add("12\n12|%1|101|1|3||1700000000|0|0|100|30|2|a|b\n")
	f.Add("12\n|||||||||||||\n")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parsePanes(s)
		if err == nil && a.server <= 0 {
			t.Errorf("%q: %+v", s, a)
		}
		a.pane("%1")
	})
}

func FuzzParseOption(f *testing.F) {
	rec := &record{Version: wire.Version, Path: "app/a", Incarnation: 3, Pane: "%1"}
	s, err := rec.option()
	if err != nil {
		f.Fatal(err)
	}
	name, _ := wire.DirName("app/a")
	f.Add(s)
	f.Add(base64.RawStdEncoding.EncodeToString([]byte(`{"version":1,"path":"app/a","incarnation":1,"pane":"3%3"}`)))
	f.Fuzz(func(t *testing.T, s string) {
		rec, err := parseOption(s, "/x/"+name)
		if err == nil && (rec.Path != "app/a" || rec.Incarnation == 0) {
			t.Errorf("%q: %+v", s, rec)
		}
	})
}

func TestQuoting(t *testing.T) {
	if got := expandable(quote(`a'b#{pid}%H;`)); got != `'a'\''b##{pid}%%H;'` {
		t.Error(got)
	}
}

func TestParseActivity(t *testing.T) {
	for out, want := range map[string]int64{"": 0, "100 90\n": 100, "100 90\n200 90\n": 200, "100 300\n200 300\n": 300} {
		got, err := parseActivity(out)
		if err != nil || want == 0 && !got.IsZero() || want != 0 && got.Unix() != want {
			t.Errorf("%q: %v, %v", out, got, err)
		}
	}
	for _, out := range []string{"x", "1 -1", "99999999999999999999", "1;2"} {
		if _, err := parseActivity(out); err == nil {
			t.Errorf("%q is taken for times", out)
		}
	}
}
