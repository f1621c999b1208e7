package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/daemon"
	"github.com/coppice-dev/coppice/internal/runtime/cgroup"
)

func newInstall(s *streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Write a systemd user unit that keeps the daemon running",
		Long: `Write a systemd user unit for the daemon of this project. systemd starts it with
your session, restarts it when it fails, and replaces it when it hangs; agents
live on meanwhile. The command prints how to enable it; it enables nothing itself.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := findConfig(file)
			if err != nil {
				return err
			}
			project, err := daemon.OpenProject(path)
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
			name := unitName(project.Dir)
			unit := filepath.Join(config, "systemd", "user", name)
			if err := os.MkdirAll(filepath.Dir(unit), 0o755); err != nil {
				return err
			}
			text := unitText(project.Dir, exe, filepath.Join(project.Dir, filepath.Base(path)))
			if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
				return err
			}
			fmt.Fprintf(s.out, "wrote %s; enable it with:\n  systemctl --user daemon-reload\n  systemctl --user enable --now %s\n", unit, name)
			return nil
		},
	}
	configFlag(cmd, &file)
	return cmd
}

// unitName is the name of a project's unit: its directory, in the characters
// that units may have.
func unitName(dir string) string {
	return "coppice-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, strings.Trim(dir, "/")) + ".service"
}

// unitText is the unit. systemd reads % as its own specifiers, and words as
// a shell does. KillMode=process: agents are the daemon's to stop, and go on
// when it is replaced. Delegate: each agent gets a control group, with limits;
// the daemon has to be in one of its own for that, or it could not be started
// again beside agents that live (systemd 254; before, limits are not enforced).
func unitText(dir, exe, file string) string {
	return fmt.Sprintf(`[Unit]
Description=Coppice, the agents of %s

[Service]
Type=notify
WorkingDirectory=%s
ExecStart=%s up --file %s
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
`, escapeUnit(dir), escapeUnit(dir), quoteUnit(exe), quoteUnit(file), cgroup.Leaf)
}

func escapeUnit(text string) string { return strings.ReplaceAll(text, "%", "%%") }

func quoteUnit(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(word) + `"`
}
