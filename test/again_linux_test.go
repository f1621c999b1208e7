package test

import "testing"

// Actions without effect are reported, and are not errors.
func TestAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, agentTOML("a", `exec sleep 1000`),
		"[[supervisor]]\nname = \"s\"\nchildren = [\"b\", \"c\", \"d\"]\n\n",
		agentTOML("b", `exec sleep 1000`), agentTOML("c", `exec sleep 1000`), agentTOML("d", `exec sleep 1000`))
	f.do("up", "-d")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"start", "a"}, "t/a is already running\n"},
		{[]string{"resume", "a"}, "t/a is already running\n"},
		{[]string{"stop", "a"}, "a stopped\n"},
		{[]string{"stop", "a"}, "t/a is already stopped\n"},
		{[]string{"suspend", "a"}, "t/a is already stopped\n"},
		{[]string{"start", "a"}, "a started\n"},
		// The other agents of a supervisor are started.
		{[]string{"stop", "c", "d"}, "c stopped\nd stopped\n"},
		{[]string{"start", "s"}, "t/s/b is already running\ns started\n"},
		{[]string{"start", "s"}, "t/s/b is already running\nt/s/c is already running\nt/s/d is already running\n"},
		{[]string{"stop", "s"}, "s stopped\n"},
		{[]string{"stop", "s"}, "t/s is already stopped\n"},
		{[]string{"start", "s", "a"}, "s started\nt/a is already running\n"},
	} {
		if out := f.do(test.args...); out != test.want {
			t.Errorf("%q says %q, want %q", test.args, out, test.want)
		}
	}
	for _, path := range []string{"t/a", "t/s/b", "t/s/c", "t/s/d"} {
		if n := f.node(path); n.State != "running" {
			t.Errorf("%s is %s", path, n.State)
		}
	}
	if n := f.node("t/a"); n.Incarnation != 2 {
		t.Errorf("a was started %d times, want 2", n.Incarnation)
	}
}
