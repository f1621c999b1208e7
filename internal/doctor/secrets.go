package doctor

import (
	"context"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/notify"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/secret"
	"github.com/coppice-dev/coppice/internal/spec"
)

// outgoing checks what the daemon needs to reach others: secrets that the file names, and how the last notifications
// have ended.
func (d *doctor) outgoing(ctx context.Context) {
	if d.tree == nil {
		return
	}
	for _, n := range d.tree.Notify {
		for _, s := range []spec.Secret{n.URLFrom, n.Token, n.Signature} {
			d.secret("notify", n.Name, s)
		}
	}
	d.secret("deadman", "the URL", d.tree.Deadman.URLFrom)
	for _, h := range d.tree.Traces.Headers {
		d.secret("traces", "the header "+h.Name, h.From)
	}
	if !d.running || len(d.tree.Notify) == 0 {
		return
	}
	client := api.Dial(d.socket)
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	all, err := notify.List.Call(ctx, client, api.None{})
	if err != nil {
		return // the check of the daemon says so
	}
	failed := 0
	for _, n := range all {
		if n.Error != "" {
			failed++
			d.note("notify", LevelProblem, "coppice notify test "+n.Name,
				"%s: the last message was not delivered: %s", n.Name, n.Error)
		}
	}
	if failed == 0 {
		ways := plaintext.Plural(len(all), "way")
		d.note("notify", LevelOK, "", "%s to notify people, and no message has failed", ways)
	}
}

// secret checks that a secret can be read. A variable is one of the environment of the daemon.
func (d *doctor) secret(check, of string, s spec.Secret) {
	if !s.IsSet() {
		return
	}
	if s.File == "" && d.running {
		env := proc.EnvironmentOf(d.holder) // nil if that cannot be read
		if env != nil && env[s.Env] == "" {
			d.note(check, LevelProblem, "set it for the daemon, such as in its systemd unit, and start that again",
				"%s: the daemon has no variable %s", of, s.Env)
		}
		return
	}
	if _, err := secret.Read(s); err != nil {
		level := LevelProblem
		if s.File == "" {
			level = LevelWarning // the daemon may be started elsewhere
		}
		d.note(check, level, "", "%s: %v", of, err)
	}
}
