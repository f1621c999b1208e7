package task

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
)

// Seed 003, section 3: contexts are available for the detection of patterns. What many tasks of a pool have met is asked
// about once, whatever became of the tasks, and is counted anew when that was answered.
func TestObstaclesOfManyTasks(t *testing.T) {
	b, ids := newPoolBench(t, 2*manyTasks)
	b.config.PoolLimit = func() PoolLimit { return PoolLimit{} }
	for range 2 * manyTasks { // one task alone
		b.fails(ids[0], outcome.Timeout)
	}
	for _, id := range ids[1 : manyTasks-1] {
		b.fails(id, outcome.Timeout)
	}
	b.fails(ids[manyTasks], outcome.VerificationFailed)
	if got := b.pool().Repeated(time.Now()); len(got) > 0 {
		t.Errorf("after %d tasks: %v", manyTasks-1, got)
	}
	s := b.fails(ids[manyTasks-1], outcome.Timeout)
	got := b.pool().Repeated(time.Now())
	want := fmt.Sprintf("timeout: %s; the last: timeout: TestLogin fails", strings.Join(ids[:manyTasks], ", "))
	if len(got) != 1 || got[0].String() != want || !s.Events[len(s.Events)-1].Asks {
		t.Errorf("%v, expected %s", got, want)
	}
	if len(s.Writes) == 0 || s.Writes[len(s.Writes)-1].Part != PoolPart {
		t.Errorf("it is not written: %+v", s.Writes)
	}
	since := got[0].Since
	b.fails(ids[manyTasks+1], outcome.Timeout)
	if got := b.pool().Repeated(time.Now()); len(got) != 1 || !got[0].Since.Equal(since) || len(got[0].Tasks) != manyTasks+1 {
		t.Errorf("one more: %+v", got)
	}
	if got := b.pool().Repeated(time.Now().Add(manyWithin + time.Minute)); len(got) > 0 {
		t.Errorf("a day later: %v", got)
	}
	if err := forgetAs(b, coder); err == nil {
		t.Error("an agent may forget them")
	}
	if err := forgetAs(b, ann); err != nil || len(b.pool().Repeated(time.Now())) > 0 || len(b.pool().Obstacles) != 1 {
		t.Errorf("%v %+v", err, b.pool())
	}
	b.attempt(ids[0], outcome.Report{Kind: outcome.Completed})
	if p := b.pool(); p.empty() || p.Obstacles[0].Kind != outcome.VerificationFailed {
		t.Errorf("what was not asked about is lost: %+v", p)
	}
}

func forgetAs(b *bench, actor Actor) error {
	_, err := b.try(func(s *Step) error { return s.ForgetObstacles(actor, "p") })
	return err
}

// A pause that ends keeps what is counted over a longer time.
func TestObstaclesOutliveAPause(t *testing.T) {
	b, ids := newPoolBench(t, 4)
	for _, id := range ids[:3] {
		b.fails(id, outcome.Timeout)
	}
	b.do(func(s *Step) error { _, err := s.ResumePool(ann, "p"); return err })
	b.attempt(ids[3], outcome.Report{Kind: outcome.Completed})
	if p := b.pool(); p.State != PoolOpen || len(p.Failures) > 0 || len(p.Obstacles) != 1 || len(p.Obstacles[0].Tasks) != 3 {
		t.Errorf("%+v", p)
	}
}

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
		o, counts := obstacleMet("web-2", Attempt{Outcome: r})
		if counts != (tt.want != "") || counts && o.Name() != tt.want {
			t.Errorf("%s, %v: %t %q, expected %q", tt.kind, tt.obstacle, counts, o.Name(), tt.want)
		}
	}
	silent := Attempt{Outcome: outcome.Report{
		Kind: outcome.Deferred, Context: &outcome.Context{Approach: unreported, Obstacle: fails},
	}}
	if _, counts := obstacleMet("web-2", silent); counts {
		t.Error("an attempt that was stopped counts")
	}
}

// Only what was met within a day counts together, and what is kept is bounded.
func TestObstaclesAreBounded(t *testing.T) {
	begin := time.Now()
	at := func(i int, after time.Duration, kind outcome.ObstacleKind) PoolObstacle {
		return PoolObstacle{Kind: kind, Tasks: []MetBy{{Task: fmt.Sprint("t-", i), At: begin.Add(after)}}}
	}
	p := Pool{Name: "p", State: PoolOpen}
	for i := range 5 * manyTasks { // each within a day of the one before
		var asks bool
		if p, asks = p.met(at(i, time.Duration(i)*manyWithin/(manyTasks-2), outcome.Timeout)); asks {
			t.Errorf("%d: slowly", i)
		}
	}
	if len(p.Obstacles) != 1 || len(p.Obstacles[0].Tasks) != manyTasks-1 {
		t.Errorf("%+v", p.Obstacles)
	}
	p = Pool{Name: "p", State: PoolOpen}
	for i := range 3 * maxMet {
		p, _ = p.met(at(i, 0, outcome.Timeout))
	}
	if got := p.Obstacles[0].Tasks; len(got) != maxMet || got[maxMet-1].Task != fmt.Sprint("t-", 3*maxMet-1) {
		t.Errorf("%v", got)
	}
	before := slices.Clone(p.Obstacles[0].Tasks)
	for i := range 3 * maxObstacles {
		q, _ := p.met(at(0, 0, outcome.ObstacleKind(fmt.Sprint("k", i))))
		if !reflect.DeepEqual(p.Obstacles[0].Tasks, before) && i == 0 {
			t.Error("the pool before has changed")
		}
		p = q
	}
	if len(p.Obstacles) != maxObstacles {
		t.Errorf("%d obstacles", len(p.Obstacles))
	}
}
