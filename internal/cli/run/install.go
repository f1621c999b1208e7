package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/runtime/cgroup"
)

func NewInstall(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install a systemd user unit for the daemon",
		Long: `Write a systemd user unit for the daemon of this project. systemd starts it with your
session, and restarts it when it fails or hangs; agents keep running meanwhile. The unit has
the PATH of this shell.

The command writes the unit and prints the steps to enable it; it starts and enables nothing.
If a daemon is running, one of the steps ends it; its agents keep running, and the daemon of
the unit takes them over; on a node of a fleet, other nodes start them. An existing unit is
replaced: keep your own changes with systemctl --user edit.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := command.FindConfig(file)
			if err != nil {
				return err
			}
			if err := command.OnlyPeople(path, "coppice install"); err != nil {
				return err
			}
			return install(s, path)
		},
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}

func install(s *command.Streams, path string) error {
	p, err := project.Open(path)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return err
	}
	text, err := unitText(p.Dir, exe, filepath.Join(p.Dir, filepath.Base(path)), os.Getenv("PATH"))
	if err != nil {
		return err
	}
	done := installed{name: unitName(p.Dir), change: unitSame, linger: lingers(), node: p.InFleet()}
	unit := filepath.Join(config, "systemd", "user", done.name)
	before, err := os.ReadFile(unit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		done.change = unitWritten
	case err != nil:
		return err
	case !strings.Contains(string(before), workingDirectory(p.Dir)):
		return fmt.Errorf("%s is the unit of a project in another directory; remove it first if it is not needed", unit)
	case string(before) != text:
		done.change = unitReplaced
	}
	if done.change != unitSame {
		if err := os.MkdirAll(filepath.Dir(unit), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if holder, locked := p.Locked(); locked {
		done.daemon = holder.PID
		groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", holder.PID))
		done.inUnit = inUnit(string(groups), done.name)
	}
	lines := append([]string{fmt.Sprintf(done.change, plaintext.Line(unit))}, done.steps()...)
	return s.PrintLines(append(lines,
		"to undo it: systemctl --user disable --now "+done.name+", and remove the file")...)
}

// Results of writing the unit file; the argument is its path.
const (
	unitSame     = "%s is up to date"
	unitWritten  = "wrote %s"
	unitReplaced = "replaced %s"
)

// installed describes the situation after the unit was written.
type installed struct {
	name   string
	change string // one of the formats above
	daemon int    // pid of the running daemon, or 0
	inUnit bool   // the daemon runs in this unit
	linger bool   // the user's units run without a session
	node   bool   // this machine is a node of a fleet, in which another one may be the controller
}

// steps returns the remaining steps for the user.
func (i installed) steps() (lines []string) {
	switch {
	case i.daemon == 0:
		lines = append(lines, "enable it with:", "  systemctl --user daemon-reload")
	case i.inUnit && i.change == unitSame:
		lines = append(lines, fmt.Sprintf("its daemon runs, process %d", i.daemon))
	case i.inUnit:
		lines = append(lines, fmt.Sprintf(
			"its daemon runs the previous unit, process %d; replace it, while the agents keep running, with:",
			i.daemon))
	default:
		lines = append(lines, fmt.Sprintf(
			"a daemon runs without the unit, process %d; hand the running agents over with:", i.daemon))
	}
	if i.daemon != 0 && (!i.inUnit || i.change != unitSame) {
		end := "  coppice down --keep-agents"
		if i.node {
			end = "  coppice down --local --keep-agents"
		}
		lines = append(lines, "  systemctl --user daemon-reload", end)
	}
	if i.daemon == 0 || !i.inUnit || i.change != unitSame {
		lines = append(lines, "  systemctl --user enable --now "+i.name)
	}
	if !i.linger {
		lines = append(lines,
			"systemd stops it when you log out, unless you let your units keep running with:",
			"  loginctl enable-linger")
	}
	return lines
}

// lingers reports whether systemd keeps the units of this user running without a session; see
// loginctl(1).
func lingers() bool {
	me, err := user.Current()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join("/var/lib/systemd/linger", filepath.Base(me.Username)))
	return err == nil
}

// inUnit reports whether these control groups, as in /proc/PID/cgroup, are in a unit.
func inUnit(groups, name string) bool {
	return slices.Contains(strings.FieldsFunc(groups, func(r rune) bool { return r == '/' || r == '\n' }), name)
}

// unitName returns the name of a project's unit: its directory, in the characters valid in unit
// names.
func unitName(dir string) string {
	return "coppice-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, strings.Trim(dir, "/")) + ".service"
}

// unitText returns the unit; see systemd.service(5) for its syntax.
//
// KillMode=process leaves the agents to the daemon, so that they survive its restart. Delegate=
// lets the daemon give each agent a control group with limits. The daemon must then run in a group
// of its own (DelegateSubgroup=, systemd 254): otherwise it could not start again while agents run.
// Older versions of systemd do not enforce the limits.
func unitText(dir, exe, file, path string) (string, error) {
	for _, p := range []string{dir, exe, file} {
		if unfitForUnit(p) {
			return "", fmt.Errorf("%q has characters that a systemd unit cannot have in a path; rename it", p)
		}
	}
	environment := ""
	if path = unitPath(path); path != "" {
		environment = "Environment=" + quoteUnit("PATH="+path, false) + "\n"
	}
	return fmt.Sprintf(`[Unit]
Description=Coppice, the agents of %s

[Service]
Type=notify
%s%sExecStart=%s up --file %s
Restart=on-failure
RestartPreventExitStatus=78
WatchdogSec=30
KillMode=process
Delegate=yes
DelegateSubgroup=%s
TimeoutStartSec=infinity
TimeoutStopSec=5min

[Install]
WantedBy=default.target
`, escapeUnit(dir), workingDirectory(dir), environment, quoteUnit(exe, true), quoteUnit(file, true), cgroup.Leaf), nil
}

func workingDirectory(dir string) string { return "WorkingDirectory=" + escapeUnit(dir) + "\n" }

// unitPath returns the directories of a PATH that can be written to a unit, without relative ones.
func unitPath(path string) string {
	var dirs []string
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) && !unfitForUnit(dir) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}

// unfitForUnit reports whether a unit cannot hold a path: it would end the line, or be read as
// another path.
func unfitForUnit(path string) bool {
	return !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) ||
		strings.HasSuffix(path, `\`) || strings.TrimSpace(path) != path
}

func escapeUnit(text string) string { return strings.ReplaceAll(text, "%", "%%") }

// quoteUnit quotes a word for a unit. In commands, systemd expands $.
func quoteUnit(word string, command bool) string {
	word = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(word)
	if command {
		word = strings.ReplaceAll(word, "$", "$$")
	}
	return `"` + word + `"`
}
