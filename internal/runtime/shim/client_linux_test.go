package shim

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/landlock"
	"github.com/coppice-dev/coppice/internal/landlock/landlocktest"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/shim/wire"
)

// greetArg makes the test binary an agent that connects to the shim of a slot. It exits with 0 if
// the shim answers, and with 3 if it hangs up.
const greetArg = "greet"

func greetRole(args []string) int {
	if err := os.Chdir(args[0]); err != nil { // the path of the socket may be too long
		fmt.Println(err)
		return 1
	}
	c, err := net.Dial("unix", wire.SocketFile)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer c.Close()
	io.WriteString(c, `{"type":"hello","v":1,"id":1}`+"\n")
	answer := make([]byte, 1000)
	n, err := c.Read(answer)
	fmt.Printf("%q %v\n", answer[:n], err)
	if n == 0 {
		return 3
	}
	return 0
}

// A restricted agent cannot have a shim start something for it, neither its own nor that of
// another agent.
func TestRestrictedAgentsCannotUseShims(t *testing.T) {
	landlocktest.Need(t)
	r := open(t, slotsDir(t))
	other := start(t, r, sh("app/other", 1, "exec sleep 1000"))
	n := uint64(0)
	self := start(t, r, sh("app/a", 1, "exit 0"))
	wait(t, "the end", self.Done())
	for _, dir := range []string{self.slot.dir, other.slot.dir} {
		for name, c := range map[string]struct {
			restrict func(*runtime.Launch)
			code     string
		}{
			"free":       {func(*runtime.Launch) {}, "0"},
			"paths":      {func(l *runtime.Launch) { l.Paths = landlock.New([]string{}, nil) }, "3"},
			"privileges": {func(l *runtime.Launch) { l.NoNewPrivileges = true }, "3"},
		} {
			n++
			l := sh("app/a", n+1, `setsid -w "$1" `+greetArg+` "$2"; test $? -eq $3`)
			l.Argv = append(l.Argv, os.Args[0], dir, c.code)
			c.restrict(&l)
			s := start(t, r, l)
			wait(t, "the end", s.Done())
			if !s.Exit().Clean() {
				lines, _ := s.Peek(ctxOf(t), 5)
				t.Errorf("%s: %v: %s", name, s.Exit(), strings.Join(lines, "\n"))
			}
		}
	}
}
