package setting

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestArgv(t *testing.T) {
	sh := func(line string) []string { return []string{"/bin/sh", "-c", line} }
	for line, want := range map[string][]string{
		"sleep 1":                          {"sleep", "1"},
		"  python3\tworker.py --q=a:1,b ":  {"python3", "worker.py", "--q=a:1,b"},
		"./größe é":                        {"./größe", "é"},
		"cd /tmp":                          sh("cd /tmp"),
		"echo a":                           sh("echo a"),
		"test -e a":                        sh("test -e a"),
		"exit 3":                           sh("exit 3"),
		"A=1 cmd":                          sh("A=1 cmd"),
		"-x":                               sh("-x"),
		"claude -p 'fix it'":               sh("exec claude -p 'fix it'"),
		"cmd $HOME >log 2>&1":              sh("exec cmd $HOME >log 2>&1"),
		"~/bin/cmd *.txt":                  sh("exec ~/bin/cmd *.txt"),
		"cmd &":                            sh("cmd &"),
		"a && b":                           sh("a && b"),
		"a; b":                             sh("a; b"),
		"a | b":                            sh("a | b"),
		"a\nb":                             sh("a\nb"),
		"(a)":                              sh("(a)"),
		"a $(b)":                           sh("a $(b)"),
		"a `b`":                            sh("a `b`"),
		"! a":                              sh("! a"),
		"{ a }":                            sh("{ a }"),
		"while read l; do echo $l; done":   sh("while read l; do echo $l; done"),
		"A='1' cmd":                        sh("A='1' cmd"),
		`"cd" x`:                           sh(`"cd" x`),
		"# nothing":                        sh("# nothing"),
		`\cd x`:                            sh(`\cd x`),
		"$CMD x":                           sh("$CMD x"),
		">f cmd":                           sh(">f cmd"),
		" cmd \\\t":                        sh("exec cmd \\\t"),
		"exec cmd 'x'":                     sh("exec cmd 'x'"),
		"cmd 'a;b' # one, but who can say": sh("cmd 'a;b' # one, but who can say"),
	} {
		if got := Argv(line); !slices.Equal(got, want) {
			t.Errorf("argv(%q) = %q, want %q", line, got, want)
		}
	}
}

// TestArgvMeansTheSame checks that the result of Argv does what the shell would do with the line.
func TestArgvMeansTheSame(t *testing.T) {
	pieces := []string{"echo", "echo", "false", "true", "a", "ä", "b=1", "'q  q'", `"$V"`, "$V", "$NONE", ">f", "2>&1", "&&", "||", ";", "|", "cd", "..", ".",
		"exit", "3", "!", "{", "}", "#", "~", "*", `\`, "\t", "if", "shift", "exec", "-k", ":", "(", ")", "cat </dev/null", "\n", "test", "[", "]", "=", "eval", "printf", "pwd", "kill", "-l", `'\n'`, "-e"}
	run := func(dir string, argv []string) (string, int) {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=/usr/bin:/bin", "V=v w", "HOME=/"}
		out, err := cmd.Output()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit):
			return string(out), exit.ExitCode()
		case err != nil:
			return "", 127 // the exit code of the shell for a missing command
		}
		return string(out), 0
	}
	here, there := t.TempDir(), t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 6).Draw(t, "pieces"), " ")
		if strings.TrimSpace(line) == "" {
			t.Skip("an error")
		}
		out, code := run(here, Argv(line))
		out = strings.ReplaceAll(out, here, there)
		wantOut, wantCode := run(there, []string{"/bin/sh", "-c", line})
		// The error message about a missing command.
		out, wantOut = strings.ReplaceAll(out, ": exec: ", ": "), strings.ReplaceAll(wantOut, ": exec: ", ": ")
		if out != wantOut || code != wantCode && (code < 126 || wantCode < 126) {
			t.Fatalf("%q as %q: %q, exit %d; the shell says %q, exit %d", line, Argv(line), out, code, wantOut, wantCode)
		}
	})
}
