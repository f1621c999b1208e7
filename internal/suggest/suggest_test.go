package suggest

import "testing"

func TestNearest(t *testing.T) {
	keys := []string{"name", "command", "dir", "max_restarts", "restart", "restart_window"}
	for _, tt := range []struct{ word, want string }{
		{"comand", "command"},
		{"commnad", "command"}, // a swap is one step
		{"Max-Restarts", "max_restarts"},
		{"restat", "restart"},
		{"restart_windw", "restart_window"},
		{"nmae", "name"},
		{"dri", "dir"},
		{"comm", "command"}, // an abbreviation
		{"timeout", ""},
		{"", ""},
		{"x", ""},
		{string(make([]byte, 1<<20)), ""},
	} {
		if got := Nearest(tt.word, keys); got != tt.want {
			t.Errorf("Nearest(%.20q) = %q, want %q", tt.word, got, tt.want)
		}
	}
}
