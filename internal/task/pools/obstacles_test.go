package pools

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

func TestObstacleMet(t *testing.T) {
	needs := outcome.Obstacle{Kind: outcome.MissingPrerequisite, TaskID: "web-1", Reason: "first"}
	service := outcome.Obstacle{Kind: outcome.ExternalDependency, Service: "the registry"}
	model := outcome.Obstacle{Kind: outcome.ModelLimitation, Model: "m-1", ErrorClass: "no answer"}
	fails := outcome.Obstacle{Kind: outcome.VerificationFailed, Description: "x"}
	for _, tt := range []struct {
		kind     outcome.Kind
		obstacle outcome.Obstacle
		until    outcome.ConditionKind
		want     string
	}{
		{outcome.Retryable, fails, "", "verification failed"},
		{outcome.Escalated, fails, "", "verification failed"},
		{outcome.Deferred, needs, "", "missing prerequisite (web-1)"},
		{outcome.Blocked, service, outcome.ServiceUp, "external dependency (the registry)"},
		{outcome.Retryable, model, "", "model limitation (m-1)"},
		{outcome.Retryable, outcome.Obstacle{Kind: "of_a_later_version"}, "", "of a later version"},
		{outcome.Blocked, fails, outcome.PersonHas, ""}, // the question about it says more
		{outcome.Completed, fails, "", ""},
		{outcome.Decomposed, fails, "", ""},
		{outcome.Retryable, outcome.Obstacle{Kind: outcome.OtherObstacle, Description: "x"}, "", ""},
		{outcome.Retryable, outcome.Obstacle{Kind: outcome.UsageLimit, Description: "x"}, "", ""}, // of the account
	} {
		r := outcome.Report{Kind: tt.kind, Context: &outcome.Context{Approach: "x", Obstacle: tt.obstacle}}
		if tt.until != "" {
			r.Condition = &outcome.Condition{Kind: tt.until, What: "x"}
		}
		o, counts := Attempt{Task: "web-2", Outcome: r}.obstacle()
		if counts != (tt.want != "") || counts && o.Name() != tt.want {
			t.Errorf("%s, %v: %t %q, expected %q", tt.kind, tt.obstacle, counts, o.Name(), tt.want)
		}
	}
	stopped := Attempt{Task: "web-2", Stopped: true, Outcome: outcome.Report{
		Kind: outcome.Deferred, Context: &outcome.Context{Obstacle: fails},
	}}
	if _, counts := stopped.obstacle(); counts {
		t.Error("an attempt that was stopped counts")
	}
}

// Only what was met within a day counts together, and what is kept is bounded.
func TestObstaclesAreBounded(t *testing.T) {
	begin := time.Now()
	at := func(i int, after time.Duration, kind outcome.ObstacleKind) Obstacle {
		return Obstacle{Kind: kind, Tasks: []MetBy{{Task: fmt.Sprint("t-", i), At: begin.Add(after)}}}
	}
	p := New("p")
	for i := range 5 * manyTasks { // each within a day of the one before
		if p.meet(at(i, time.Duration(i)*manyWithin/(manyTasks-2), outcome.Timeout)) {
			t.Errorf("%d: slowly", i)
		}
	}
	if len(p.Obstacles) != 1 || len(p.Obstacles[0].Tasks) != manyTasks-1 {
		t.Errorf("%+v", p.Obstacles)
	}
	p = New("p")
	for i := range 3 * maxMet {
		p.meet(at(i, 0, outcome.Timeout))
	}
	if got := p.Obstacles[0].Tasks; len(got) != maxMet || got[maxMet-1].Task != fmt.Sprint("t-", 3*maxMet-1) {
		t.Errorf("%v", got)
	}
	before := slices.Clone(p.Obstacles[0].Tasks)
	for i := range 3 * maxObstacles {
		q := p
		q.meet(at(0, 0, outcome.ObstacleKind(fmt.Sprint("k", i))))
		if !reflect.DeepEqual(p.Obstacles[0].Tasks, before) && i == 0 {
			t.Error("the pool before has changed")
		}
		p = q
	}
	if len(p.Obstacles) != maxObstacles {
		t.Errorf("%d obstacles", len(p.Obstacles))
	}
}
