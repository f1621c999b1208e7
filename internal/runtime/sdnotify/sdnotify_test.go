package sdnotify

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func text(s string) *string { return &s }

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Message
	}{
		{"READY=1", Message{Ready: true}},
		{"READY=1\n", Message{Ready: true}},
		{"READY=1\x00", Message{Ready: true}},
		{"READY=1\r\nSTATUS=up\r\n", Message{Ready: true, Status: text("up")}},
		{"READY=0", Message{}},
		{"READY=11", Message{}},
		{" READY=1", Message{}},
		{"ready=1", Message{}},
		{"READY", Message{}},
		{"XREADY=1", Message{}},
		{"RELOADING=1\nMONOTONIC_USEC=12345", Message{Reloading: true}},
		{"STOPPING=1\nSTATUS=", Message{Stopping: true, Status: text("")}},
		{"STATUS=a=b\nX=1", Message{Status: text("a=b")}},
		{"WATCHDOG=1", Message{Alive: true}},
		{"WATCHDOG=trigger", Message{Trigger: true}},
		{"WATCHDOG=Trigger", Message{}},
		{"WATCHDOG_USEC=20000000", Message{Period: 20 * time.Second}},
		{"WATCHDOG_USEC=0", Message{}},
		{"WATCHDOG_USEC=-1", Message{}},
		{"WATCHDOG_USEC=18446744073709551615", Message{}}, // USEC_INFINITY
		{"WATCHDOG_USEC=99999999999999999999999", Message{}},
		{"EXTEND_TIMEOUT_USEC=5000000", Message{Extend: 5 * time.Second}},
		{"ERRNO=2", Message{Errno: 2}},
		{"ERRNO=-2", Message{}},
		{"ERRNO=99999", Message{}},
		{"MAINPID=1\nFDSTORE=1\nFDNAME=x\nBARRIER=1\nNOTIFYACCESS=all", Message{}},
		{"", Message{}},
		{"\n\n=\n=1\n\xff=\xff", Message{}},
		{"READY=1\x00WATCHDOG=1", Message{}},
		{"READY=1\n" + strings.Repeat("X=1\n", MaxMessage), Message{}},
	} {
		if got := Parse([]byte(c.in)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%.60q: %s", c.in, cmp.Diff(c.want, got))
		}
	}
}

func TestHear(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	same := func(s string) string { return s }
	for _, c := range []struct {
		name    string
		in      []string // one a second
		want    Notice   // except for Heard
		urgency Urgency  // of the last message
	}{
		{"an unknown message is a sign of life", []string{"X=1"}, Notice{}, Sign},
		{"watchdog", []string{"WATCHDOG=1", "X=1", "WATCHDOG=1"}, Notice{Alive: at(3)}, Sign},
		{"period restarts it", []string{"WATCHDOG=1", "WATCHDOG_USEC=9000000"}, Notice{Alive: at(2), Period: 9 * time.Second}, Sign},
		{"status", []string{"STATUS= one ", "READY=1\nSTATUS=two"}, Notice{Status: "two"}, Words},
		{"the same status", []string{"STATUS=one", "STATUS=one"}, Notice{Status: "one"}, Sign},
		{"status removed", []string{"STATUS=one", "STATUS="}, Notice{}, Words},
		{"reloading", []string{"RELOADING=1"}, Notice{Reloading: true}, Words},
		{"reloaded", []string{"RELOADING=1", "WATCHDOG=1", "READY=1"}, Notice{Alive: at(2)}, Words},
		{"reloaded at once", []string{"RELOADING=1\nREADY=1"}, Notice{}, Sign},
		{"extended", []string{"EXTEND_TIMEOUT_USEC=9000000", "EXTEND_TIMEOUT_USEC=1000000"}, Notice{Until: at(10)}, Sign},
		{"errno", []string{"ERRNO=5\nSTATUS=disk"}, Notice{Errno: 5, Status: "disk"}, Words},
		{"trigger", []string{"WATCHDOG=trigger"}, Notice{Triggered: true}, Once},
		{"stopping", []string{"STOPPING=1"}, Notice{Stopping: at(1)}, Once},
		{"stopping is final", []string{"STOPPING=1", "READY=1", "STOPPING=1"}, Notice{Stopping: at(1)}, Sign},
	} {
		var n Notice
		var u Urgency
		for i, m := range c.in {
			u = n.Apply(Parse([]byte(m)), at(i+1), same)
		}
		c.want.Heard = at(len(c.in))
		if n != c.want || u != c.urgency {
			t.Errorf("%s: %s\nurgency %d, want %d", c.name, cmp.Diff(c.want, n), u, c.urgency)
		}
	}
}

func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	var p Pace
	if w := p.Wait(Sign, now); w != 0 {
		t.Errorf("the first sign waits %v", w)
	}
	p.Told(now)
	now = now.Add(100 * time.Millisecond)
	for u, want := range map[Urgency]time.Duration{Sign: 900 * time.Millisecond, Words: 150 * time.Millisecond, Once: 0} {
		if w := p.Wait(u, now); w != want {
			t.Errorf("urgency %d waits %v, want %v", u, w, want)
		}
	}
}

// For any input, the resulting state is bounded and can be displayed.
func FuzzHear(f *testing.F) {
	f.Add([]byte("READY=1\nSTATUS=\xff\x1b[2J\nWATCHDOG=trigger"))
	f.Add([]byte("STATUS=" + strings.Repeat("ä", MaxStatus)))
	f.Add([]byte("WATCHDOG_USEC=9223372036854775807\nEXTEND_TIMEOUT_USEC=9223372036854775807\nERRNO=4096"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := Parse(b)
		var n Notice
		now := time.Unix(1<<31, 0)
		n.Apply(m, now, func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") })
		switch {
		case len(n.Status) > MaxStatus || !utf8.ValidString(n.Status) || strings.ContainsAny(n.Status, "\n\r\x00"):
			t.Errorf("status %q", n.Status)
		case n.Period < 0 || n.Period > maxDuration || m.Extend < 0 || n.Errno < 0 || n.Errno > 4095:
			t.Errorf("%+v", n)
		case !n.Until.IsZero() && !n.Until.After(now):
			t.Errorf("extended to the past: %v", n.Until)
		case len(b) > MaxMessage+1 && m != (Message{}):
			t.Errorf("a message of %d bytes says %+v", len(b), m)
		}
	})
}
