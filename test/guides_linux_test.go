package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// writeGuideNight writes the files of docs/guides/night.md, and returns its blocks of commands.
func writeGuideNight(t *testing.T, dir string) (commands []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs", "guides", "night.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$").FindAllStringSubmatch(string(data), -1) {
		name := regexp.MustCompile(`(?m)^# ([A-Za-z./]+\.(?:sh|toml)|[a-z/]+/Aidefile)`).FindStringSubmatch(b[2])
		if name == nil {
			commands = append(commands, b[2])
			continue
		}
		file := filepath.Join(dir, name[1])
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		// Shorten what takes long in a real night.
		write(t, file, strings.NewReplacer(`base = "10s"`, `base = "100ms"`, "sleep 1;", "sleep 0.2;", "[project]\n", "[daemon]\npatrol_interval = \"200ms\"\n\n[project]\n").Replace(b[2]))
	}
	return commands
}

// needGit skips a test where there is no git, and fails it in CI.
func needGit(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("git")
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// The guide docs/guides/night.md works with a stand-in for claude: its files are written and its
// commands run as shown.
func TestGuideNight(t *testing.T) {
	t.Parallel()
	needGit(t)
	f := newFleet(t)
	commands := writeGuideNight(t, f.dir)
	if len(commands) != 3 {
		t.Fatalf("%d blocks of commands: %q", len(commands), commands)
	}
	bin := filepath.Join(f.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(bin, "claude"), `#!/bin/sh
echo "claude $*" >> "`+f.dir+`/calls"
prompt=$(cat)
case "$prompt" in
*Safari*) [ -e once ] || { : > once; exit 1; } ;;
*dependencies*) exit 1 ;;
esac
case "$*" in *json*) echo '{"result": "all is well", "usage": {"input_tokens": 5, "output_tokens": 2}}' ;; esac
`)
	sh := func(script string) string {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = f.dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null", "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	sh("chmod +x bin/claude; git init -q; git -c user.name=t -c user.email=t@t.invalid commit -q --allow-empty -m first")

	evening, _, ok := strings.Cut(commands[0], "coppice top")
	if !ok {
		t.Fatalf("it does not end with coppice top, which takes a terminal:\n%s", commands[0])
	}
	sh(evening)
	eventually(t, "the end of all tasks but the one that always fails", func() bool {
		return f.do("task", "ls", "--count") == "1\n" && f.do("task", "ls", "--status", "parked", "--count") == "1\n"
	})

	sh(commands[1])
	eventually(t, "the reviewer's success", func() bool { return strings.Contains(f.do("logs", "reviewer"), "STATUS: success") })

	out := sh(commands[2])
	for _, want := range []string{`closed +pool coder +\S+ +The login button`, `parked +pool coder +\S+ +Update the dependencies`, `1 task parked`, `closed +pool coder +\S+ +Find the slowest test`, `exit code 1`, `coder drained`, `night is down`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in what the morning says:\n%s", want, out)
		}
	}
	calls, _ := os.ReadFile(filepath.Join(f.dir, "calls"))
	if n := strings.Count(string(calls), "acceptEdits"); n > 6 { // two for the login, three for the dependencies, and one
		t.Errorf("claude was called %d times:\n%s", n, calls)
	}
	if log, _ := exec.Command("git", "-C", f.dir, "worktree", "list").Output(); strings.Count(string(log), "\n") != 4 {
		t.Errorf("the trees of three tasks, and the first:\n%s", log)
	}
}
