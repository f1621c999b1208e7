package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestInits bounds what our packages allocate before main. Each process of the program pays for
// it: a daemon, all shims and each command.
func TestInits(t *testing.T) {
	const most = 32 << 10       // bytes
	exe, err := os.Executable() // has all packages of the program
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err, trace.String())
	}
	total, list := 0, ""
	for s := bufio.NewScanner(&trace); s.Scan(); {
		// init internal/bytealg @0.008 ms, 0 ms clock, 0 bytes, 0 allocs
		f := strings.Fields(s.Text())
		if len(f) < 9 || f[0] != "init" || !strings.HasPrefix(f[1], "github.com/coppice-dev/coppice/") {
			continue
		}
		n, err := strconv.Atoi(f[7])
		if err != nil || f[8] != "bytes," {
			t.Fatalf("unexpected line %q", s.Text())
		}
		if total += n; n > 1<<10 {
			list += fmt.Sprintf("\n\t%s: %d", f[1], n)
		}
	}
	if total == 0 {
		t.Fatalf("no package of ours in the trace:\n%s", trace.String())
	}
	t.Logf("%d bytes", total)
	if total > most {
		t.Errorf("our packages allocate %d bytes before main, more than %d; compile and build on first use:%s",
			total, most, list)
	}
}
