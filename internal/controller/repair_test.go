package controller

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
)

// repairer is a stage whose slots take some time to be checked.
type repairer struct {
	*stage
	takes  time.Duration
	checks int
}

func (r *repairer) Repair() []string {
	r.checks++
	time.Sleep(r.takes)
	return nil
}

// The slots are checked at each interval, and less often if that would use up the processor.
func TestSlotsAreCheckedAtBoundedCost(t *testing.T) {
	t.Parallel()
	for takes, most := range map[time.Duration]int{
		0:                     60,
		time.Millisecond:      60,
		19 * time.Millisecond: 60,
		50 * time.Millisecond: 20, // every 6 s: the first interval after 5 s
		time.Hour:             1,
	} {
		synctest.Test(t, func(t *testing.T) {
			slots := &repairer{stage: newStage(), takes: takes}
			r := &repairs{Controller: &Controller{opts: Options{Runtimes: []runtime.Runtime{slots}}}}
			tick := time.NewTicker(repairInterval)
			defer tick.Stop()
			for range 60 {
				<-tick.C
				if before := slots.checks; takes == time.Hour && before > 0 {
					break
				}
				r.slots()
			}
			if slots.checks != most {
				t.Errorf("checks that take %v: %d in two minutes, expected %d", takes, slots.checks, most)
			}
			if pause := time.Until(r.slotsDue); pause > longestSlotPause {
				t.Errorf("the next check is in %v", pause)
			}
		})
	}
}
