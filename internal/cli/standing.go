package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
)

// observedText says what the patrol sees.
var observedText = map[string]string{
	"unknown": "it cannot be told whether it runs, so that nothing is done",
	"down":    "it does not run",
	"running": "it runs",
	"kept":    "its supervisor takes care of it",
	"done":    "it was stopped by hand, or has ended, and stays so",
}

// standingLines say what the patrol makes of a node, a sentence each.
func standingLines(s *api.Standing, now time.Time) (lines []string) {
	if s == nil {
		return nil
	}
	wanted := map[string]string{"run": "it is to run", "suspend": "it is not to run", "finish": "it is to finish"}[s.Wanted]
	if wanted == "" {
		wanted = "wanted: " + s.Wanted
	}
	if s.Why != "" {
		wanted += " (" + s.Why + ")"
	}
	observed := observedText[s.Observed]
	if observed == "" {
		observed = "observed: " + s.Observed
	}
	switch {
	case len(s.Drifted) > 0:
		observed += ", but not as declared: " + strings.Join(s.Drifted, ", ")
	case s.Known:
		observed += " as declared"
	}
	lines = append(lines, wanted+"; "+observed)
	if len(s.WaitsFor) > 0 {
		lines = append(lines, "it waits for "+strings.Join(s.WaitsFor, ", "))
	}
	if s.HeldUntil != nil {
		lines = append(lines, fmt.Sprintf("started too often: there is room for another start at %s, in %s", clock(*s.HeldUntil, now), short(max(0, s.HeldUntil.Sub(now)))))
	}
	if s.IdleLeft != nil {
		left := time.Duration(*s.IdleLeft * float64(time.Second))
		lines = append(lines, fmt.Sprintf("it is killed in %s unless it reads or writes something before", short(left)))
	}
	round := "a round would do nothing about it"
	switch {
	case s.Busy:
		round = "what was planned for it is being done"
	case s.Action != "":
		round = fmt.Sprintf("a round would %s it now: %s", s.Action, s.Reason)
	}
	if s.NextRound != nil {
		round += fmt.Sprintf("; the next one is in %s, or when something happens", short(max(0, s.NextRound.Sub(now))))
	}
	return append(lines, round)
}
