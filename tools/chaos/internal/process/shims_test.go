package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// The test binary is a shim, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		forkingShim()
		return
	}
	os.Exit(m.Run())
}

// forkingShim has the command line of a shim, and a child with the same one, until its input ends.
func forkingShim() {
	if os.Getenv("FORKED") == "" {
		child := exec.Command(os.Args[0], os.Args[1:]...)
		child.Env, child.Stdin = append(os.Environ(), "FORKED=1"), os.Stdin
		if err := child.Start(); err != nil {
			panic(err)
		}
		defer child.Wait()
		fmt.Println("ready")
	}
	io.Copy(io.Discard, os.Stdin)
}

// What a shim has forked, and what has not executed its command yet, is no shim.
func TestShimsIn(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "shim", "run", "key")
	cmd.Dir = t.TempDir()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	if got, want := Shims(cmd.Dir), []int{cmd.Process.Pid}; !slices.Equal(got, want) {
		t.Errorf("shims %v, expected %v", got, want)
	}
}

// A shim that ends while it is stopped was not stopped.
func TestStopShimsEnded(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() // until then it can be sent signals
	if err := AwaitEnd(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if stopped, _, err := StopShims(cmd.Process.Pid); len(stopped) > 0 || err != nil {
		t.Errorf("stopped %v, %v", stopped, err)
	}
}
