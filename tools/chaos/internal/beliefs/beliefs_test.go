package beliefs

import "testing"

// The audit finds what it is there for.
func TestAudit(t *testing.T) {
	good := "start 0 0 \"\" 0\ntry 1\nack 1\ntry 2\nstart 2 4 \"2:4\" 0\ntry 3\nstart 2 4 \"2:4\" 0\ntry"
	if a, err := audit([]byte(good)); err != nil || a != (account{lives: 3, acks: 1, acknowledged: 2, tried: 2}) {
		t.Errorf("%+v, %v", a, err)
	}
	for what, bad := range map[string]string{
		"lost":     "start 0 0 \"\" 0\ntry 1\nack 1\nstart 0 0 \"\" 0\n",
		"half":     "start 0 0 \"\" 0\ntry 1\nack 1\nstart 1 0 \"1:1\" 0\n",
		"old life": "start 0 0 \"\" 0\ntry 1\nack 1\nstart 1 1 \"1:1\" 1\n",
		"twice":    "start 0 0 \"\" 0\ntry 1\nack 1\nstart 1 1 \"1:1\" 0\ntry 2\ntry 2\n",
		"other":    "start 0 0 \"\" 0\ntry 1\nack 2\n",
		"refused":  "start 0 0 \"\" 0\ntry 1\nerror 1 stale\n",
	} {
		if _, err := audit([]byte(bad)); err == nil {
			t.Errorf("%s was not found", what)
		}
	}
}
