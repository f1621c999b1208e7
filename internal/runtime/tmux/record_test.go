package tmux

import (
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

func TestOutlived(t *testing.T) {
	at := time.Now()
	for _, tt := range []struct {
		rec  record
		age  time.Duration
		want bool
	}{
		{record{Condition: spec.Ready{Timeout: 4 * time.Second}}, 3 * time.Second, false},
		{record{Condition: spec.Ready{Timeout: 4 * time.Second}}, 5 * time.Second, true},
		{record{Condition: spec.Ready{Timeout: 4 * time.Second}, Ready: true}, time.Second, true},
		{record{}, spec.DefaultReadyTimeout - time.Second, false},
		{record{}, spec.DefaultReadyTimeout + time.Second, true},
	} {
		tt.rec.StartedAt = at
		if tt.rec.outlived(at.Add(tt.age)); tt.rec.Ready != tt.want {
			t.Errorf("after %v: ready is %v, want %v", tt.age, tt.rec.Ready, tt.want)
		}
	}
}
