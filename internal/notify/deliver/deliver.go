// Package deliver delivers messages to people: over HTTP, by mail, and by commands. Each delivery takes bounded time
// and memory, whatever the other side does, and no error has a secret.
package deliver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/notify"
	"github.com/coppice-dev/coppice/internal/secret"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Options configure a Deliverer.
type Options struct {
	// Run runs a command, as gate.Runner.Wait does; nil if there can be none.
	Run func(context.Context, gate.Check) (gate.Result, bool)
	// Environ returns the environment of a command with more variables.
	Environ func(map[string]string) []string
}

// Deliverer delivers messages.
type Deliverer struct{ Options }

// New returns a Deliverer.
func New(o Options) *Deliverer { return &Deliverer{o} }

// sendTime bounds a delivery over the network.
const sendTime = 20 * time.Second

var errSlow = fmt.Errorf("it takes more than %v", sendTime)

// Send delivers a message.
func (d *Deliverer) Send(ctx context.Context, n *spec.Notify, m *notify.Message) error {
	if n.Via == spec.Desktop || n.Via == spec.Command {
		return d.run(ctx, n, m)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, sendTime, errSlow)
	defer cancel()
	s, err := readSecrets(n)
	if err != nil {
		return err
	}
	switch n.Via {
	case spec.Webhook:
		err = sendWebhook(ctx, n, s, m)
	case spec.Ntfy:
		err = sendNtfy(ctx, n, s, m)
	case spec.Slack:
		err = sendSlack(ctx, s, m)
	case spec.Mail:
		err = sendMail(ctx, n, s, m)
	default:
		err = fmt.Errorf("unknown way %q", n.Via)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return s.clean(err)
}

// secrets are the values of a delivery that are not in the file.
type secrets struct{ url, token, signature string }

func readSecrets(n *spec.Notify) (s secrets, err error) {
	s.url = n.URL
	for _, one := range []struct {
		into *string
		from spec.Secret
	}{{&s.url, n.URLFrom}, {&s.token, n.Token}, {&s.signature, n.Signature}} {
		if !one.from.IsSet() {
			continue
		}
		if *one.into, err = secret.Read(one.from); err != nil {
			return s, err
		}
	}
	return s, nil
}

// clean returns an error without the secrets.
func (s secrets) clean(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, known := range []string{s.url, s.token, s.signature} {
		if known != "" {
			text = strings.ReplaceAll(text, known, "[secret]")
		}
	}
	return errors.New(text)
}
