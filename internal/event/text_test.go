package event

import "testing"

// TestText checks that the message of an event can be shown next to what it is about.
func TestText(t *testing.T) {
	for _, test := range []struct {
		e        Event
		expected string
	}{
		{Event{Path: "t/a", Message: "t/a restarted, incarnation 2"}, "restarted, incarnation 2"},
		{Event{Path: "t/a", Message: "t/ab is another"}, "t/ab is another"},
		{Event{Path: "orders/nightly", Message: "order nightly completed"}, "completed"},
		{Event{Message: "controller stopped"}, "controller stopped"},
	} {
		if got := test.e.Text(); got != test.expected {
			t.Errorf("%s: got %q, want %q", test.e.Message, got, test.expected)
		}
	}
}
