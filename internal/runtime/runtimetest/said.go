package runtimetest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/sdnotify"
	"github.com/coppice-dev/coppice/internal/spec"
)

// SayArg is the first argument of a test program that must run Say.
const SayArg = "runtimetest-say"

// Say is an agent that sends to NOTIFY_SOCKET the lines of a file, which are quoted as in Go.
// The line "exit N" ends it.
func Say(args []string) {
	in, err := os.Open(args[0])
	if err != nil {
		panic(err)
	}
	c, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	fmt.Println("saying", os.Getenv("WATCHDOG_USEC"))
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if code, ok := strings.CutPrefix(lines.Text(), "exit "); ok {
			n, _ := strconv.Atoi(code)
			os.Exit(n)
		}
		text, err := strconv.Unquote(lines.Text())
		if err != nil {
			panic(err)
		}
		if _, err := c.Write([]byte(text)); err != nil {
			// There is no listener for a moment; there may be one at the next try.
			if c2, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET")); err == nil {
				c2.Write([]byte(text))
				c2.Close()
			}
		}
	}
}

// speaker returns the launch of an agent that runs Say, and a function that makes it send
// messages.
func speaker(b *harness, path string, n uint64) (runtime.Launch, func(words ...string)) {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	words := filepath.Join(b.TempDir(), "words")
	if err := syscall.Mkfifo(words, 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.OpenFile(words, os.O_RDWR, 0) // both ends, so that no open waits for the other
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	l := sh(path, n, `exec "$@"`)
	l.Argv = append(l.Argv, exe, SayArg, words)
	l.Env = append(l.Env, "GORACE=atexit_sleep_ms=0")
	l.Notify = true
	return l, func(words ...string) {
		for _, w := range words {
			if !strings.HasPrefix(w, "exit ") {
				w = strconv.Quote(w)
			}
			if _, err := f.WriteString(w + "\n"); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// heard waits until the reported state satisfies a condition.
func (b *harness) heard(s runtime.Session, what string, yes func(sdnotify.Notice) bool) sdnotify.Notice {
	b.Helper()
	for end := time.Now().Add(Timeout); ; time.Sleep(5 * time.Millisecond) {
		said := s.Observe().Said
		if yes(said) {
			return said
		}
		if time.Now().After(end) {
			b.Fatalf("%s was not heard: %+v", what, said)
		}
	}
}

func status(want string) (string, func(sdnotify.Notice) bool) {
	return want, func(n sdnotify.Notice) bool { return n.Status == want }
}

func testSaid(t *testing.T, b *harness) {
	r := b.runtime()
	l, say := speaker(b, "app/a", 1)
	l.Watchdog = 90 * time.Second
	before := time.Now()
	s := b.start(r, l)
	if usec := b.until(s, "saying"); usec != "90000000" {
		t.Errorf("WATCHDOG_USEC is %q", usec)
	}
	if n := s.Observe().Said; n.Since.Before(before) || !n.Heard.IsZero() || n.Status != "" {
		t.Errorf("before anything was said: %+v", n)
	}
	say("STATUS=one\nWATCHDOG=1")
	what, yes := status("one")
	n := b.heard(s, what, yes)
	if n.Alive.Before(before) || n.Alive.After(time.Now()) || n.Alive != n.Heard {
		t.Errorf("alive at %v, heard at %v, began at %v", n.Alive, n.Heard, before)
	}
	for range 300 {
		say("WATCHDOG=1")
	}
	say("RELOADING=1\nMONOTONIC_USEC=1", "WATCHDOG=1\nERRNO=17\nSTATUS=a\x1b[31m\xffb")
	what, yes = status("a\uFFFDb")
	n = b.heard(s, what, yes)
	if !n.Reloading || n.Errno != 17 || !n.Stopping.IsZero() || n.Triggered {
		t.Errorf("heard %+v", n)
	}

	// A daemon that comes later knows the state, and receives more.
	r.Close()
	r = b.runtime()
	s = b.adopt(r, "app/a")
	if n := s.Observe().Said; n.Status != "a\uFFFDb" || n.Errno != 17 || !n.Reloading || n.Since.IsZero() {
		t.Errorf("after an adoption: %+v", n)
	}
	adopted := time.Now()
	say("READY=1\nWATCHDOG=1\nSTATUS=two")
	what, yes = status("two")
	if n := b.heard(s, what, yes); n.Reloading || n.Alive.Before(adopted) {
		t.Errorf("after an adoption, heard %+v", n)
	}

	// The last messages are known with the end.
	say("STOPPING=1", "WATCHDOG=trigger\nSTATUS=bye", "exit 3")
	if e := b.exit(s); !isExit(e, 3) {
		t.Errorf("exit: %v", e)
	}
	if n := s.Observe().Said; n.Status != "bye" || n.Stopping.Before(adopted) || !n.Triggered {
		t.Errorf("at the end: %+v", n)
	}

	// None of it applies to the next incarnation.
	s = b.start(r, sh("app/a", 2, `echo "socket <$NOTIFY_SOCKET$WATCHDOG_USEC>"; `+forever))
	if got := b.until(s, "socket"); got != "<>" {
		t.Errorf("an agent without a listener was told %q", got)
	}
	if n := s.Observe().Said; n != (sdnotify.Notice{}) {
		t.Errorf("heard %+v", n)
	}
}

func testSaidReady(t *testing.T, b *harness) {
	r := b.runtime()
	l, say := speaker(b, "app/a", 1)
	l.Notify, l.Ready = false, spec.Ready{Notify: true, Timeout: Timeout}
	say("STATUS=about to", "READY=1\nSTATUS=at work")
	s := b.start(r, l)
	what, yes := status("at work")
	b.heard(s, what, yes)
	say("exit 0")
	b.exit(s)
}
