package trigger

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
)

// Each run is told what its chain has used before it, and each run counts once.
func TestSpentBefore(t *testing.T) {
	logged := 0
	m := New(Options{Dir: t.TempDir(), LogUnexpected: func(_, _ string, err error) {
		if err != nil {
			logged++
		}
	}})
	a := &agent{file: new(aidefile.Agent)}
	begin := func(expected int64) {
		t.Helper()
		if err := m.writeRequest("p/a", a); err != nil {
			t.Fatal(err)
		}
		q, err := runner.Read(m.requestFile("p/a"))
		if err != nil || q.Spent != expected {
			t.Errorf("%d spent before, expected %d; %v", q.Spent, expected, err)
		}
	}
	end := func(text string) {
		t.Helper()
		path := filepath.Join(filepath.Dir(m.requestFile("p/a")), "calls.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	used := func(tokens int64, result string) {
		text, err := json.Marshal(runner.Records{Fired: a.request.Fired, Used: tokens, Result: result})
		if err != nil {
			t.Fatal(err)
		}
		end(string(text))
	}
	now := time.Now().Round(0)
	a.request.Fired, a.request.Chain = now, now
	begin(0)
	used(60, "failure")
	begin(60)
	begin(60) // the run before was killed before it began
	used(7, "")
	begin(67)
	used(5, "success")
	begin(0)
	used(9, "failure")
	begin(9)
	end("{")
	if begin(9); logged != 1 {
		t.Errorf("%d errors were logged", logged)
	}
	used(1, "failure")
	a.request.Chain = now.Add(time.Second) // a reset
	begin(0)
}

// The records of a run are those that the run itself has written, also if the next one with the same request is killed
// before it has written any.
func TestRecordsOfTheRunBefore(t *testing.T) {
	m := New(Options{Dir: t.TempDir(), LogUnexpected: func(string, string, error) {}})
	a := &agent{file: new(aidefile.Agent)}
	if err := m.writeRequest("p/a", a); err != nil {
		t.Fatal(err)
	}
	request := m.requestFile("p/a")
	q, err := runner.Read(request)
	if err != nil {
		t.Fatal(err)
	}
	q.Aidefile = "/none"
	runner.New(q, filepath.Dir(request), nil, os.Stderr, os.Stderr).Run(context.Background())
	if all, err := runner.ReadRecords(request); err != nil || all.Run == "" {
		t.Errorf("%+v, %v", all, err)
	}
	if err := m.writeRequest("p/a", a); err != nil {
		t.Fatal(err)
	}
	if all, err := runner.ReadRecords(request); err != nil || all.Run != "" {
		t.Errorf("%+v, %v", all, err)
	}
}
