package supervisor

import (
	"errors"
	"testing"
)

// TestExitString checks the words for exits that people read.
func TestExitString(t *testing.T) {
	for _, c := range []struct {
		exit Exit
		want string
	}{
		{Exit{Kind: Normal}, "completed"},
		{Exit{Kind: ShutDown}, "shutdown"},
		{Exit{Kind: Failure, Err: errors.New("exit code 3")}, "exit code 3"},
		{Exit{Kind: Killed, Err: errors.New("killed")}, "killed"},
		{Exit{Kind: Killed, Err: errors.New("signal: terminated")}, "killed: signal: terminated"},
	} {
		if got := c.exit.String(); got != c.want {
			t.Errorf("%+v is %q, want %q", c.exit, got, c.want)
		}
	}
}
