package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/supervisor"
)

// Records of earlier versions keep their meaning: an agent that has ended for good is not started
// because the words for that have changed.
func TestReasonOf(t *testing.T) {
	for reason := supervisor.NoReason; reason <= supervisor.ReasonReplaced; reason++ {
		if got := reasonOf(reason.String()); got != reason {
			t.Errorf("%q is read as %d, expected %d", reason, got, reason)
		}
	}
	for text, want := range map[string]supervisor.Reason{
		"permanent children are always restarted":          supervisor.ReasonPermanent,
		"transient children are restarted after a failure": supervisor.ReasonTransientFailed,
		"transient children stay down after a clean exit":  supervisor.ReasonTransientClean,
		"temporary children are never restarted":           supervisor.ReasonTemporary,
		"something else":                                   supervisor.NoReason,
	} {
		if got := reasonOf(text); got != want {
			t.Errorf("%q is read as %v, expected %v", text, got, want)
		}
	}
}

// TestRecordOfExit: the error of an exit keeps its identity in the store.
func TestRecordOfExit(t *testing.T) {
	stored := func(text []byte) supervisor.Exit {
		t.Helper()
		var r Record
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		return r.Saved().LastExit
	}
	for _, exit := range []supervisor.Exit{
		{Kind: supervisor.Normal},
		{Kind: supervisor.Failure, Err: fmt.Errorf("no use: %w", supervisor.ErrDoNotRestart)},
		{Kind: supervisor.Failure, Err: fmt.Errorf("agent: %w", &proc.ExitError{Code: 7, LastOutput: []string{"long"}})},
		{Kind: supervisor.Killed, Err: supervisor.ErrKilled},
		{Kind: supervisor.Failure, Err: &TooOftenError{Order: "night shift"}},
		LostExit(),
	} {
		text, err := json.Marshal(NewRecord("t/a", 1, true, supervisor.Saved{LastExit: exit}))
		if err != nil {
			t.Fatal(err)
		}
		got := stored(text)
		if got.Kind != exit.Kind || got.String() != exit.String() {
			t.Errorf("%v is read as %v", exit, got)
		}
		for _, target := range []error{supervisor.ErrDoNotRestart, supervisor.ErrKilled} {
			if errors.Is(got.Err, target) != errors.Is(exit.Err, target) {
				t.Errorf("%v is %q: %v", exit, target, !errors.Is(exit.Err, target))
			}
		}
		var often, wasOften *TooOftenError
		if errors.As(exit.Err, &wasOften) && (!errors.As(got.Err, &often) || *often != *wasOften) {
			t.Errorf("%v is read as %#v", exit, got.Err)
		}
		var process, was *proc.ExitError
		if !errors.As(exit.Err, &was) {
			continue
		}
		if !errors.As(got.Err, &process) || process.Code != was.Code || process.LastOutput != nil {
			t.Errorf("%v has %+v", exit, process)
		}
	}
	before := `{"path":"t/a","last_exit":{"kind":"failure","error":"of a version before"}}`
	if got := stored([]byte(before)); got.Kind != supervisor.Failure || got.String() != "of a version before" {
		t.Errorf("got %v", got)
	}
}
