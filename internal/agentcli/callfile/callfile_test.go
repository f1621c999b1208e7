package callfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
)

func hide(text string) string { return strings.ReplaceAll(text, "sesame", "[KEY]") }

// read returns what is known of a run.
func read(t *testing.T, path string) Records {
	t.Helper()
	all, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What a run writes is what the daemon reads. The call in progress is the last one until it is added.
func TestFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, fired := filepath.Join(t.TempDir(), Name), time.Now().Add(-time.Minute)
		f := New(path, fired, hide)
		if all := read(t, path); all.Run != "" {
			t.Errorf("before it begins: %+v", all)
		}
		if err := f.Begin(); err != nil {
			t.Fatal(err)
		}
		all := read(t, path)
		if !all.Began.Equal(time.Now()) || len(all.Run) < 16 || all.Calls == nil || len(all.Calls) != 0 {
			t.Errorf("when it begins: %+v", all)
		}
		if all.Run != f.Records().Run || all.Run == New(path, fired, hide).Records().Run {
			t.Errorf("its identity is %q", all.Run)
		}

		call := agentcli.Record{Session: "s", Verdict: agentcli.Verdict{Reason: "no sesame", Rule: "the sesame rule"}}
		call.Unknown = map[string]int{}
		for i := range 50 {
			call.Unknown[fmt.Sprintf("kind-%02d", i)] = i
		}
		time.Sleep(noteGap)
		if err := f.Note(5, func() (agentcli.Record, *agentcli.Record) { return call, &call }); err != nil {
			t.Fatal(err)
		}
		all = read(t, path)
		if len(all.Calls) != 1 || all.Running == nil || all.Refused == nil || all.Used != 5 {
			t.Fatalf("in progress: %+v", all)
		}
		for _, r := range []agentcli.Record{all.Calls[0], *all.Running, *all.Refused} {
			if r.Session != "s" || r.Reason != "no [KEY]" || r.Rule != "the [KEY] rule" || len(r.Unknown) != maxUnknown {
				t.Errorf("%+v", r)
			}
		}
		if len(call.Unknown) != 50 || call.Reason != "no sesame" {
			t.Errorf("the record of the caller was changed: %+v", call)
		}
		if err := f.Add(call, 7); err != nil {
			t.Fatal(err)
		}
		all = read(t, path)
		if len(all.Calls) != 1 || all.Running != nil || all.Refused != nil || all.Used != 7 ||
			all.Calls[0].Reason != "no [KEY]" || len(all.Calls[0].Unknown) != maxUnknown {
			t.Errorf("after its end: %+v", all)
		}
	})
}

// The record of a call in progress is not written without need, nor even made within a second after a write.
func TestNoteIsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), Name)
		f := New(path, time.Time{}, hide)
		if err := f.Begin(); err != nil {
			t.Fatal(err)
		}
		var refused *agentcli.Record
		asked := 0
		note := func(used int64, written bool) {
			t.Helper()
			before := f.stored
			err := f.Note(used, func() (agentcli.Record, *agentcli.Record) {
				asked++
				return agentcli.Record{}, refused
			})
			if err != nil || f.stored.After(before) != written {
				t.Errorf("used %d: written: %v, %v", used, !written, err)
			}
		}
		for range 3 {
			note(5, false)
		}
		time.Sleep(noteGap - 1)
		if note(5, false); asked != 0 {
			t.Error("the record was made, and thrown away")
		}
		time.Sleep(time.Nanosecond)
		note(5, true)
		time.Sleep(noteGap)
		note(5, false)
		note(6, true)
		note(7, false)
		// Also if only its account does not serve it any longer.
		time.Sleep(noteGap)
		refused = &agentcli.Record{Verdict: agentcli.Verdict{Obstacle: outcome.Authentication}}
		note(6, true)
		time.Sleep(noteGap)
		note(6, false)
		refused = nil
		note(6, true)
		if all := read(t, path); all.Refused != nil || all.Used != 6 {
			t.Errorf("%+v", all)
		}
	})
}

// Calls that are no longer listed are counted, so that each keeps its number.
func TestManyCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	f := New(path, time.Time{}, hide)
	for i := range maxRecords + 3 {
		if err := f.Add(agentcli.Record{Calls: i}, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	all := read(t, path)
	if len(all.Calls) != maxRecords || all.Dropped != 3 || all.Calls[0].Calls != 3 || all.Used != maxRecords+2 {
		t.Errorf("%d calls, %d dropped, the first is %d", len(all.Calls), all.Dropped, all.Calls[0].Calls)
	}
}

// What was written before stays readable.
func TestFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	const text = `{"fired":"2026-11-28T10:00:00Z","run":"R","began":"2026-11-28T10:00:01Z","dropped":2,` +
		`"calls":[{"cli":"claude","session":"s","tokens":5,"tool_calls":1,"tool_calls_succeeded":1,` +
		`"tool_calls_denied":0,"retries":0}],"running":{"cli":"claude","tokens":null},` +
		`"refused":{"cli":"claude"},"used":9,"later":true}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fired := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	all := read(t, path)
	if all.Run != "R" || !all.Began.Equal(fired.Add(time.Second)) || all.Dropped != 2 || len(all.Calls) != 2 ||
		*all.Calls[0].Tokens != 5 || all.Calls[1].Tokens != nil || all.Refused == nil || all.Used != 9 {
		t.Errorf("%+v", all)
	}
	all.Calls = all.Calls[:1]
	again, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"fired", "run", "began", "dropped", "calls", "running", "refused", "used"} {
		if !strings.Contains(string(again), `"`+key+`":`) {
			t.Errorf("no %s in %s", key, again)
		}
	}
}

// A file that is damaged, huge or none is an error that names it, not a run.
func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	for text, expected := range map[string]string{
		"": "unexpected end", "{": "unexpected end", "[]": "cannot unmarshal", `{"used":"x"}`: "cannot unmarshal",
		strings.Repeat(" ", maxFile+1): "is larger than",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := Read(path)
		if all.Used != 0 || len(all.Calls) != 0 || err == nil || !strings.Contains(err.Error(), expected) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%.20q: %+v, %v", text, all, err)
		}
	}
	for range 2 {
		if err := Remove(path); err != nil {
			t.Error(err)
		}
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := Read(path); err == nil {
		t.Errorf("a named pipe: %+v", all)
	}
}

// A run goes on if its file cannot be written, and the next write has everything.
func TestCannotWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	path := filepath.Join(dir, Name)
	f := New(path, time.Time{}, hide)
	if err := f.Begin(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Add(agentcli.Record{}, 1); err != nil {
		t.Fatal(err)
	}
	if all := read(t, path); all.Began.IsZero() || len(all.Calls) != 1 {
		t.Errorf("%+v", all)
	}
}
