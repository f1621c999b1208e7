package cli

import "testing"

// What is so already is said, and is no error.
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
		{[]string{"start", "a"}, "t/a runs already\n"},
		{[]string{"resume", "a"}, "t/a runs already\n"},
		{[]string{"stop", "a"}, "a stopped\n"},
		{[]string{"stop", "a"}, "t/a is stopped already\n"},
		{[]string{"suspend", "a"}, "t/a is stopped already\n"},
		{[]string{"start", "a"}, "a started\n"},
		// The others of a supervisor are started.
		{[]string{"stop", "c", "d"}, "c stopped\nd stopped\n"},
		{[]string{"start", "s"}, "t/s/b runs already\ns started\n"},
		{[]string{"start", "s"}, "t/s/b runs already\nt/s/c runs already\nt/s/d runs already\n"},
		{[]string{"stop", "s"}, "s stopped\n"},
		{[]string{"stop", "s"}, "t/s is stopped already\n"},
		{[]string{"start", "s", "a"}, "s started\nt/a runs already\n"},
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
