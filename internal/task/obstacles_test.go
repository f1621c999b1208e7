package task

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/task/pools"
)

// Seed 003, section 3: contexts are available for the detection of patterns. What many tasks of a pool have met is
// asked about once, whatever became of the tasks, and is counted anew when that was answered.
func TestObstaclesOfManyTasks(t *testing.T) {
	const many = 5
	b, ids := newPoolBench(t, 2*many)
	b.config.PoolLimit = func() pools.Limit { return pools.Limit{} }
	for range 2 * many { // one task alone
		b.fails(ids[0], outcome.Timeout)
	}
	for _, id := range ids[1 : many-1] {
		b.fails(id, outcome.Timeout)
	}
	b.fails(ids[many], outcome.VerificationFailed)
	if got := b.pool().Repeated(time.Now()); len(got) > 0 {
		t.Errorf("after %d tasks: %v", many-1, got)
	}
	s := b.fails(ids[many-1], outcome.Timeout)
	got := b.pool().Repeated(time.Now())
	want := fmt.Sprintf("timeout: %s; the last: timeout: TestLogin fails", strings.Join(ids[:many], ", "))
	if len(got) != 1 || got[0].String() != want || !s.Events[len(s.Events)-1].Asks {
		t.Errorf("%v, expected %s", got, want)
	}
	if len(s.Writes) == 0 || s.Writes[len(s.Writes)-1].Part != PoolPart {
		t.Errorf("it is not written: %+v", s.Writes)
	}
	since := got[0].Since
	b.fails(ids[many+1], outcome.Timeout)
	got = b.pool().Repeated(time.Now())
	if len(got) != 1 || !got[0].Since.Equal(since) || len(got[0].Tasks) != many+1 {
		t.Errorf("one more: %+v", got)
	}
	if got := b.pool().Repeated(time.Now().Add(25 * time.Hour)); len(got) > 0 {
		t.Errorf("a day later: %v", got)
	}
	if err := forgetAs(b, coder); err == nil {
		t.Error("an agent may forget them")
	}
	if err := forgetAs(b, ann); err != nil || len(b.pool().Repeated(time.Now())) > 0 || len(b.pool().Obstacles) != 1 {
		t.Errorf("%v %+v", err, b.pool())
	}
	b.attempt(ids[0], outcome.Report{Kind: outcome.Completed})
	if p := b.pool(); p.Empty() || p.Obstacles[0].Kind != outcome.VerificationFailed {
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
	p := b.pool()
	if p.State != pools.Open || len(p.Failures) > 0 || len(p.Obstacles) != 1 || len(p.Obstacles[0].Tasks) != 3 {
		t.Errorf("%+v", p)
	}
}
