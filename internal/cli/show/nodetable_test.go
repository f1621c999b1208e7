package show

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/status"
)

func TestFit(t *testing.T) {
	t.Parallel()
	const R, Q = status.StateRunning, "quarantined"
	for _, test := range []struct {
		states []string
		n      int
		want   string
		hidden int
	}{
		{[]string{R}, 5, "0", 0},
		{[]string{R, R, R}, 3, "0 1 2", 0},
		{[]string{R, R, R, R}, 3, "0 1", 2},
		{[]string{R, R, R, R, Q}, 3, "0 4", 3},
		{[]string{R, R, R, Q, R, Q}, 4, "0 3 5", 3},
		{[]string{R, R, R, Q, R, Q}, 5, "0 1 3 5", 2},
		{[]string{R, Q, Q, Q, R, Q}, 4, "0 1 2", 3},
		{[]string{R, Q, Q}, 2, "0", 2},
	} {
		rows := make([][]string, len(test.states))
		for i := range rows {
			rows[i] = []string{fmt.Sprint(i)}
		}
		got, states, hidden := chooseRows(rows, test.states, test.n)
		if text := strings.Join(slices.Concat(got...), " "); text != test.want || hidden != test.hidden || len(states) != len(got) {
			t.Errorf("%v in %d: %s and %d more, want %s and %d", test.states, test.n, text, hidden, test.want, test.hidden)
		}
	}
}
