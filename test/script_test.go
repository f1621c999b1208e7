package test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Sessions of commands in testdata/script.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, errors.New("unknown condition " + cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"rc":   scriptRC,
			"make": scriptMake,
		},
	})
}

// rc CODE PROGRAM ARGS... runs a program that must exit with CODE.
func scriptRC(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: rc CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// make KIND FILE makes files that an archive cannot hold.
func scriptMake(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: make KIND FILE")
	}
	path := ts.MkAbs(args[1])
	switch args[0] {
	case "latin1":
		ts.Check(os.WriteFile(path, []byte("[[agent]]\nname = \"caf\xe9\"\ncommand = \"true\"\n"), 0o644))
	case "utf16":
		ts.Check(os.WriteFile(path, []byte("\xff\xfe[\x00"), 0o644))
	case "sparse": // 100 MB that use no disk space
		ts.Check(os.WriteFile(path, nil, 0o644))
		ts.Check(os.Truncate(path, 100<<20))
	case "long": // 100,000 agents
		ts.Check(os.WriteFile(path, []byte(strings.Repeat("[[agent]]\nname = \"a\"\ncommand = \"true\"\n", 100_000)), 0o644))
	case "fifo":
		ts.Check(syscall.Mkfifo(path, 0o644))
	case "deep": // 9 levels with the root
		var b strings.Builder
		for _, n := range "bcdefghi" {
			b.WriteString("[[supervisor]]\nname = \"" + string(n) + "\"\nchildren = [\"" + string(n+1) + "\"]\n")
		}
		ts.Check(os.WriteFile(path, []byte(b.String()+"[[agent]]\nname = \"j\"\ncommand = \"true\"\n"), 0o644))
	default:
		ts.Fatalf("cannot make %q", args[0])
	}
}
