package message

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/coppice-dev/coppice/internal/account"
	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// through returns a value as the other side of a connection decodes it.
func through[V any](t *testing.T, v V) (there V) {
	t.Helper()
	b, err := Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(bytes.NewReader(b), &there); err != nil {
		t.Fatal(err)
	}
	return there
}

// full returns a launch in which every field is set.
func full(t *testing.T) runtime.Launch {
	t.Helper()
	me, err := account.Find("root", "daemon")
	if err != nil {
		t.Fatal(err)
	}
	l := runtime.Launch{
		Path: "app/ä", Incarnation: 1<<64 - 1, ResetNumbering: true, SpecHash: "hash", Token: "token",
		Argv: []string{"/bin/sh", "", "a b\n\xff"}, Dir: "/dir\xff", Env: []string{"A=\xff", "B="}, Stdin: "/in\xff",
		Input: true, StopSignal: syscall.SIGUSR1, Grace: time.Hour + 1, Timeout: time.Minute + 1,
		Ready: spec.Ready{Log: "^x$", TCP: "a:1", HTTP: "http://b", Exec: []string{"c", "d"}, Notify: true,
			Timeout: time.Second + 1},
		Notify: true, Watchdog: time.Second + 2, Terminal: true, Rows: 1, Cols: 65535,
		Limits:          runtime.Limits{Memory: 1 << 40, CPU: 0.25, OpenFiles: 7, Processes: 8},
		NoNewPrivileges: true, Paths: landlock.New([]string{"/a", "-/b"}, []string{"/a/c"}).WithOwnSignals(true),
		User: me, Log: runtime.Log{MaxSize: 9, Keep: 10},
		Program: &spec.Program{Key: "key", Bundle: []byte("\x00bundle\xff")}, Home: "/home", Lease: 11,
		Inherited: []string{"PATH"},
		Files:     &runtime.Files{Write: map[string][]byte{"a": []byte("\x00\xff"), "b": {}}, Remove: []string{"c"}},
	}
	for _, v := range []reflect.Value{reflect.ValueOf(l), reflect.ValueOf(l.Limits), reflect.ValueOf(l.Ready),
		reflect.ValueOf(*l.Paths), reflect.ValueOf(l.Log), reflect.ValueOf(*l.Files)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Fatalf("%s has no value here: does it cross to another node?", v.Type().Field(i).Name)
			}
		}
	}
	return l
}

func TestLaunch(t *testing.T) {
	for _, l := range []runtime.Launch{full(t), {Path: "a", Incarnation: 1, Dir: "/"}} {
		sent, err := NewLaunch(l)
		if err != nil {
			t.Fatal(err)
		}
		got, err := through(t, sent).Unpack()
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, l)
		}
	}
	for name, change := range map[string]func(*runtime.Launch){
		"NUL byte":           func(l *runtime.Launch) { l.Env = []string{"A=\x00"} },
		`directory "sub" is`: func(l *runtime.Launch) { l.Dir = "sub" },
		"needs a directory":  func(l *runtime.Launch) { l.Dir = "" },
		`stdin "in" is`:      func(l *runtime.Launch) { l.Stdin = "in" },
		"token":              func(l *runtime.Launch) { l.Token = "\xff" },
		"trace":              func(l *runtime.Launch) { l.Program = &spec.Program{Key: "k", Trace: os.Stdout} },
		"key":                func(l *runtime.Launch) { l.Program = &spec.Program{Key: "\xff"} },
		"no name":            func(l *runtime.Launch) { l.User = &account.Account{UID: 5} },
		"not UTF-8":          func(l *runtime.Launch) { l.Paths = landlock.New([]string{"/\xff"}, nil) },
		"readiness":          func(l *runtime.Launch) { l.Ready.TCP = "\xff" },
	} {
		l := full(t)
		change(&l)
		if _, err := NewLaunch(l); !errors.Is(err, proc.ErrCommand) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, w := range map[string]string{
		"no launch": `null`, "no launch ": `{}`, "there is no user": `{"dir":"","user":{"name":"no such user"}}`,
		"no group":  `{"dir":"","user":{"name":"root","group":"no such group"}}`,
		"no signal": `{"dir":"","signal":{"name":"SIGNONE"}}`,
	} {
		var sent *Launch
		if err := json.Unmarshal([]byte(w), &sent); err != nil {
			t.Fatal(err)
		}
		if _, err := sent.Unpack(); !errors.Is(err, proc.ErrCommand) ||
			!strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR2, 40, 1000} {
		if got := through(t, NewSignal(s)).Local(); got != s {
			t.Errorf("%d has become %d", s, got)
		}
	}
}

func TestFailures(t *testing.T) {
	exit := &proc.ExitError{Code: 3, LastOutput: []string{"last", "words"}}
	for _, want := range []error{
		runtime.ErrUnknown, runtime.ErrBusy, runtime.ErrStale, runtime.ErrEnded, runtime.ErrUnsupported,
		runtime.ErrOverdue, runtime.ErrFenced, runtime.ErrDeadline, runtime.ErrNodeLost, runtime.ErrWriter,
		supervisor.ErrNotReady,
		supervisor.ErrStartTimeout, supervisor.ErrKilled, supervisor.ErrDoNotRestart, proc.ErrCommand, fs.ErrNotExist,
		fs.ErrPermission, token.ErrStale, token.ErrPending, store.ErrFenced, store.ErrUnavailable, context.Canceled,
		context.DeadlineExceeded, landlock.ErrUnsupported,
	} {
		for _, err := range []error{want, fmt.Errorf("subject: %w", want), fmt.Errorf("%w: %w", want, exit)} {
			got := through(t, NewFailure(err)).Err()
			if !errors.Is(got, want) || got.Error() != err.Error() {
				t.Errorf("%v has become %v", err, got)
			}
			if e := new(proc.ExitError); errors.As(err, &e) && (!errors.As(got, &e) || !reflect.DeepEqual(e, exit)) {
				t.Errorf("%v has become %#v", err, got)
			}
			for _, other := range []error{runtime.ErrBusy, fs.ErrNotExist, supervisor.ErrNotReady, store.ErrFenced} {
				if errors.Is(got, other) != errors.Is(err, other) {
					t.Errorf("%v is %v only there, or only here", err, other)
				}
			}
		}
	}
	if NewFailure(nil).Err() != nil {
		t.Error("no error has become one")
	}
	if err := new(Failure).Err(); err == nil {
		t.Error("an empty failure is none")
	}
}

// Times that are compared with the clock are right on a machine with another clock.
func TestObservation(t *testing.T) {
	now := time.Now()
	there := now.Add(-1000 * time.Hour)
	said := sdnotify.Notice{
		Since: now.Add(-time.Hour), Heard: now.Add(-time.Minute), Status: "at work", Alive: now.Add(-time.Second),
		Period: time.Minute, Until: now.Add(time.Minute), Stopping: now.Add(-2), Triggered: true, Reloading: true,
		Errno: 5,
	}
	started := time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	ended := started.Add(time.Hour)
	exit := supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 4}}
	base := runtime.Observation{
		Path: "app/ä", Incarnation: 5, SpecHash: "f", Token: "t", StartedAt: started, Said: said,
		Before: []runtime.Ended{{Incarnation: 4, ExitedAt: started, Exit: exit}},
	}
	for _, with := range []func(*runtime.Observation){
		func(o *runtime.Observation) { o.Life, o.Ready, o.PID = runtime.Alive, true, 77 },
		func(o *runtime.Observation) {
			o.Life, o.Exit, o.ExitedAt, o.Unrecorded = runtime.Dead, exit, ended, true
		},
		func(o *runtime.Observation) { o.Detail = "why" },
	} {
		o := base
		with(&o)
		got := through(t, NewState("proc", o, now)).Observation(there)
		shift := now.Sub(there)
		for _, at := range []*time.Time{&got.Said.Since, &got.Said.Heard, &got.Said.Alive, &got.Said.Until,
			&got.Said.Stopping} {
			*at = at.Add(shift)
		}
		if !cmp.Equal(got.Said, o.Said, cmpopts.EquateApproxTime(time.Millisecond)) {
			t.Errorf("said %+v\nwant %+v", got.Said, o.Said)
		}
		got.Said = o.Said
		if !reflect.DeepEqual(got, o) {
			t.Errorf("got %+v\nwant %+v", got, o)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("m\x00\x00\x00\x02{}"))
	f.Add([]byte("d\xff\xff\xff\xff"))
	f.Add([]byte(`m` + "\x00\x00\x00\x40" + `{"id":1,"op":"start","launch":{"user":{"name":"x"}},"refs":[{}]}`))
	f.Add([]byte(`m` + "\x00\x00\x00\x40" + `{"state":{"end":{},"said":{"since":1}},"failure":{"is":["busy"]}, }`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if kind, content, err := ReadFrame(bytes.NewReader(b), MaxData); err == nil {
			if again := appendFrame(nil, kind, content); !bytes.HasPrefix(b, again) {
				t.Errorf("%q was read from %q", again, b)
			}
		} else if errors.Is(err, io.EOF) && len(b) > 0 && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q is taken for the end between two frames", b)
		}
		var q Request
		if _, err := Read(bytes.NewReader(b), &q); err == nil {
			_, _ = q.Launch.Unpack()
			q.Signal.Local()
		}
		var a Answer
		if _, err := Read(bytes.NewReader(b), &a); err == nil {
			_ = a.Failure.Err()
			if a.State != nil {
				a.State.Observation(time.Now())
			}
			for _, s := range a.List {
				s.Observation(time.Now())
			}
		}
	})
}
