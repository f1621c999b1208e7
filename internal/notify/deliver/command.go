package deliver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/notify"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/spec"
)

// maxDesktop bounds the text of a notification on a desktop, in bytes.
const maxDesktop = 1000

// run runs the command of a [[notify]], with the message as JSON on standard input.
func (d *Deliverer) run(ctx context.Context, n *spec.Notify, m *notify.Message) error {
	if d.Run == nil {
		return errors.New("no commands can be run")
	}
	input, err := json.Marshal(m)
	if err != nil {
		return err
	}
	check := gate.Check{Argv: n.Command, Dir: n.Dir, Limit: cmp.Or(n.Timeout, spec.DefaultNotifyLimit),
		Input: append(input, '\n'), Env: d.Environ(nil)}
	if n.Via == spec.Desktop {
		check.Argv, check.Env, check.Input = desktop(runtime.GOOS, m), d.Environ(session()), nil
	}
	result, done := d.Run(ctx, check)
	switch {
	case !done:
		return context.Cause(ctx)
	case result.Open:
		return nil
	case len(result.Output) > 0 && result.Output[len(result.Output)-1] != result.Exit:
		last := plaintext.OneLine(result.Output[len(result.Output)-1], 100)
		return fmt.Errorf("%s: %s: %s", check.Argv[0], result.Exit, last)
	}
	return fmt.Errorf("%s: %s", check.Argv[0], result.Exit)
}

// desktop returns the command that shows a message on the desktop.
func desktop(system string, m *notify.Message) []string {
	text := plaintext.Cut(m.Text, maxDesktop)
	if system == "darwin" { // the texts are arguments, and not a part of the script
		return []string{"osascript", "-e", "on run argv", "-e",
			"display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run", "--", m.Title, text}
	}
	urgency := "normal"
	if m.Urgent {
		urgency = "critical"
	}
	return []string{"notify-send", "--app-name=coppice", "--urgency=" + urgency, "--", m.Title, markup(text)}
}

// session returns the variables by which a command finds the desktop of the daemon's user.
func session() map[string]string {
	vars := map[string]string{}
	for _, name := range []string{"DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"} {
		if value := os.Getenv(name); value != "" {
			vars[name] = value
		}
	}
	return vars
}

// markup escapes the markup that the Desktop Notifications Specification gives a body.
func markup(text string) string { return slackText(text) }
