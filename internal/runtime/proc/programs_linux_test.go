package proc

import (
	"bufio"
	"os/exec"
	"slices"
	"testing"
)

func TestPrograms(t *testing.T) {
	script := func(text string) (id Identity, end func()) {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-c", text, "the-script")
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
		end = func() { in.Close(); cmd.Wait() }
		t.Cleanup(end)
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if id, err = Identify(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		return id, end
	}
	// The background process reports that it was executed.
	with, _ := script(`exec 3<&0; sh -c 'echo up; read x' the-child <&3 & wait`)
	alone, end := script(`echo up; read x`)
	found, err := Programs([]Identity{with, alone})
	if err != nil {
		t.Fatal(err)
	}
	if p := found[with]; !slices.Contains(p, "sh") || len(p) < 4 {
		t.Errorf("with a child: %q", p)
	}
	if p := found[alone]; !slices.Contains(p, "sh") || slices.Contains(p, "cat") {
		t.Errorf("without: %q", p)
	}
	end()
	found, err = Programs([]Identity{with, alone})
	if _, ok := found[alone]; ok || err != nil || found[with] == nil {
		t.Errorf("after its end: %v, %v", found, err)
	}
}
