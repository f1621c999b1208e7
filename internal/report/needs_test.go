package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/status"
)

// What is both a problem and a question is named once.
func TestNeedsOnce(t *testing.T) {
	t.Parallel()
	g := Gathered{
		Status: status.Status{Controller: status.Controller{PID: 1}, Store: status.Store{OK: true},
			Attention: []status.Attention{
				{Path: "budget night", State: "reached", Reason: "2m tokens", Command: "coppice budget raise night"},
				{Path: "quota main", State: "stopped", Reason: "no login", Command: "coppice quota resume main"},
				{Path: "shop/team", State: "paused", Reason: "limit", Command: "coppice resume shop/team"},
				{Path: "shop/api", State: "quarantined", Reason: "exit code 3", Command: "coppice logs shop/api"},
			}},
		Questions: []question.Question{
			{ID: "q-1", From: "budget/night", Text: "raise?"}, {ID: "q-2", From: "quota/main", Text: "go on?"},
			{ID: "q-3", From: "shop/team", Text: "go on?"}, {ID: "q-4", From: "shop/api", Text: "which?"},
			{ID: "q-5", From: "budget/day", Text: "raise?"},
		},
	}
	var all []string
	for _, n := range g.allNeeds() {
		all = append(all, fmt.Sprintf("%s %s %s", n.Subject, n.State, n.From))
	}
	const want = `budget night reached 
quota main stopped 
shop/team paused 
shop/api quarantined 
q-4 question shop/api
q-5 question budget/day`
	if got := strings.Join(all, "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
