package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/exectest"
)

func TestInstallSteps(t *testing.T) {
	t.Parallel()
	const reload, down, enable = "systemctl --user daemon-reload", "coppice down --keep-agents", "systemctl --user enable --now x.service"
	for name, c := range map[string]struct {
		done  installed
		steps []string
	}{
		"nothing runs":      {installed{change: unitWritten, linger: true}, []string{reload, enable}},
		"again":             {installed{change: unitSame, linger: true}, []string{reload, enable}},
		"a daemon runs":     {installed{change: unitWritten, linger: true, daemon: 7}, []string{reload, down, enable}},
		"the unit runs":     {installed{change: unitSame, linger: true, daemon: 7, inUnit: true}, nil},
		"another unit runs": {installed{change: unitReplaced, linger: true, daemon: 7, inUnit: true}, []string{reload, down, enable}},
		"a node runs": {installed{change: unitWritten, linger: true, daemon: 7, node: true},
			[]string{reload, "coppice down --local --keep-agents", enable}},
		"the unit of a node runs": {installed{change: unitSame, linger: true, daemon: 7, inUnit: true, node: true}, nil},
		"ends with a session":     {installed{change: unitSame, daemon: 7, inUnit: true}, []string{"loginctl enable-linger"}},
	} {
		c.done.name = "x.service"
		var steps []string
		text := strings.Join(c.done.steps(), "\n")
		for _, line := range regexp.MustCompile(`(?m)^  (.*)$`).FindAllStringSubmatch(text, -1) {
			steps = append(steps, line[1])
		}
		if strings.Join(steps, "; ") != strings.Join(c.steps, "; ") {
			t.Errorf("%s: %q, want %q", name, steps, c.steps)
		}
		if c.done.daemon != 0 && !strings.Contains(text, "process 7") {
			t.Errorf("%s: the daemon is not named: %s", name, text)
		}
	}
}

func TestInUnit(t *testing.T) {
	t.Parallel()
	const name = "coppice-a.service"
	for groups, want := range map[string]bool{
		"0::/user.slice/user@0.service/app.slice/coppice-a.service/coppice-daemon\n":    true,
		"1:name=systemd:/user@0.service/coppice-a.service\n0::/\n":                      true,
		"0::/user.slice/user@0.service/app.slice/coppice-a.service2/coppice-a.servic\n": false,
		"0::/init.scope\n": false,
		"":                 false,
	} {
		if got := inUnit(groups, name); got != want {
			t.Errorf("%q: %v", groups, got)
		}
	}
}

func TestUnitText(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), `50% of "the" $HOME \ garden`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := unitText(dir, exe, filepath.Join(dir, "coppice.toml"), "/usr/bin:.:bin::/opt/a b/50%:/usr/bin:/x\ny:/$z")
	if err != nil {
		t.Fatal(err)
	}
	if want := `Environment="PATH=/usr/bin:/opt/a b/50%%:/$z"` + "\n"; !strings.Contains(text, want) {
		t.Errorf("no %s in\n%s", want, text)
	}
	if without, err := unitText(dir, exe, "f", ""); err != nil || strings.Contains(without, "Environment") {
		t.Errorf("without a PATH: %v\n%s", err, without)
	}
	for _, bad := range []string{"/a\nExecStart=/evil", "/a ", `/a\`, "/a\xff", "/a\x1b"} {
		if text, err := unitText(bad, exe, "f", ""); err == nil {
			t.Errorf("%q:\n%s", bad, text)
		}
	}

	exectest.Need(t, "systemd-analyze")
	unit := filepath.Join(t.TempDir(), "coppice-test.service")
	if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	verify := exec.Command("systemd-analyze", "--user", "verify", unit)
	verify.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	said, err := verify.CombinedOutput()
	for line := range strings.Lines(string(said)) {
		// DelegateSubgroup= is new in systemd 254.
		if strings.Contains(line, "coppice-test.service") && !strings.Contains(line, "'DelegateSubgroup'") {
			t.Errorf("systemd-analyze: %s", line)
		}
	}
	if err != nil {
		t.Logf("systemd-analyze: %v\n%s", err, said)
	}
}
