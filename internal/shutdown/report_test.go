package shutdown

import "testing"

func TestWhoIsOverdue(t *testing.T) {
	for want, o := range map[string]Overdue{
		"t/a (process 7)": {Path: "t/a", PID: 7},
		"t/a":             {Path: "t/a"}, // it ended while it was asked
	} {
		if got := o.Who(); got != want {
			t.Errorf("%+v is %q, want %q", o, got, want)
		}
	}
}
