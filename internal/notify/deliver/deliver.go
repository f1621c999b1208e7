// Package deliver delivers messages to people: over HTTP, by mail, and by commands. Each delivery takes bounded time
// and memory, whatever the other side does, and no error has a secret.
package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/gate"
	"github.com/coppice-dev/coppice/internal/notify"
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

const (
	// sendTime bounds a delivery over the network.
	sendTime = 20 * time.Second
	// maxSecret bounds a secret, in bytes.
	maxSecret = 16 << 10
)

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

// Check returns why messages could not be sent, as far as that is known without sending one: a missing secret.
func Check(n *spec.Notify) error {
	_, err := readSecrets(n)
	return err
}

// secrets are what a delivery needs and the file does not have.
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
		if *one.into, err = read(one.from); err != nil {
			return s, err
		}
	}
	return s, nil
}

// read returns a secret without the line break at its end.
func read(from spec.Secret) (string, error) {
	where := "the variable " + from.Env
	text := os.Getenv(from.Env)
	if from.File != "" {
		where = "the file " + from.File
		data, err := readFile(from.File)
		if err != nil {
			return "", fmt.Errorf("reading a secret: %w", err)
		}
		text = string(data)
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "" && from.File == "":
		return "", fmt.Errorf("%s is not set in the environment of the daemon", where)
	case text == "":
		return "", fmt.Errorf("%s is empty, expected a secret", where)
	case len(text) > maxSecret || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("the secret in %s is not one line of at most %d bytes", where, maxSecret)
	}
	return text, nil
}

// readFile reads a small regular file, and follows links: the secrets of containers are links.
func readFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe must not block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return io.ReadAll(io.LimitReader(f, maxSecret+1))
}

// clean returns an error without the secrets.
func (s secrets) clean(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, secret := range []string{s.url, s.token, s.signature} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[secret]")
		}
	}
	return errors.New(text)
}
