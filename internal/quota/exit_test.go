package quota

import (
	"context"
	"errors"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/token"
	"github.com/coppice-dev/coppice/supervisor"
)

// What a run has used is known from its output, also if it was stopped. Without output nothing is known.
func TestRead(t *testing.T) {
	t.Parallel()
	const line = `{"type":"assistant","message":{"id":"m","model":"opus","usage":{"input_tokens":5,"output_tokens":2}}}`
	who := token.Caller{Path: "t/a", Incarnation: 3}
	for name, c := range map[string]struct {
		exit     supervisor.Exit
		asked    bool
		output   error
		tokens   int64 // -1: not known
		obstacle outcome.ObstacleKind
	}{
		"by itself": {
			supervisor.Exit{Kind: supervisor.Failure, Err: &proc.ExitError{Code: 1}}, false, nil, 7, outcome.Crash,
		},
		"stopped":        {supervisor.Exit{Kind: supervisor.ShutDown}, true, nil, 7, outcome.OtherObstacle},
		"without output": {supervisor.Exit{}, false, errors.New("gone"), -1, ""},
	} {
		output := func(_ context.Context, of token.Caller, add func(string)) error {
			if of != who {
				t.Errorf("the output of %v was read", of)
			}
			if c.output == nil {
				add(line)
			}
			return c.output
		}
		r, err := Read(agentcli.Claude, output, who, c.exit, c.asked)
		if !errors.Is(err, c.output) || r.CLI != agentcli.Claude || r.Obstacle != c.obstacle {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if (r.Tokens == nil) != (c.tokens < 0) || r.Tokens != nil && *r.Tokens != c.tokens {
			t.Errorf("%s: %v tokens", name, r.Tokens)
		}
	}
}
