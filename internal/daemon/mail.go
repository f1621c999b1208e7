package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/asking"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/work"
	"github.com/coppice-dev/coppice/supervisor"
)

// openMail opens the mailboxes, and the questions, whose answers may come by mail.
func (c *Controller) openMail(ctx context.Context) (err error) {
	c.mail, err = mail.Open(ctx, mail.Options{
		Store: c.opts.Store, Logger: c.opts.Logger,
		Also: func(m mail.Message) []store.Op { return []store.Op{c.log.Op(sentEvent(m))} },
	})
	if err != nil {
		return err
	}
	c.desk, err = asking.OpenDesk(ctx, asking.Options{
		Store: c.opts.Store, Logger: c.opts.Logger,
		Also: func(q asking.Question) []store.Op { return []store.Op{c.log.Op(questionEvent(q))} },
		Ended: func(q asking.Question, waited bool) {
			c.health.QuestionsChanged(q.From)
			notify(c.pauses.look)
			if !waited {
				c.forward(q)
			}
		},
	})
	return err
}

// sentEvent is the log's entry of a message: it has no body.
func sentEvent(m mail.Message) event.Event {
	e := event.Event{
		Type: event.MailSent, Actor: m.From, Incarnation: m.Incarnation,
		Message: fmt.Sprintf("%s from %s to %s: %s", m.ID, m.From, m.To, m.Subject),
	}
	if m.To != mail.People {
		e.Path, e.Incarnation = m.To, 0
	} else if m.From != mail.People {
		e.Path = m.From
	}
	return e.With(map[string]any{"id": m.ID, "from": m.From, "to": m.To, "subject": m.Subject, "size": m.Size})
}

// translated makes an error of mail and questions one of the API. What it says stays.
func translated(err error) error {
	for _, kind := range []struct{ ours, theirs error }{
		{mail.ErrNotFound, api.ErrNotFound}, {mail.ErrInvalid, api.ErrInvalid}, {mail.ErrFull, api.ErrConflict},
		{work.ErrNotFound, api.ErrNotFound}, {work.ErrInvalid, api.ErrInvalid}, {work.ErrConflict, api.ErrConflict}, {work.ErrFull, api.ErrConflict}, {work.ErrStale, api.ErrStale},
		{asking.ErrNotFound, api.ErrNotFound}, {asking.ErrInvalid, api.ErrInvalid}, {asking.ErrEnded, api.ErrConflict}, {asking.ErrTooMany, api.ErrConflict},
	} {
		if errors.Is(err, kind.ours) {
			return &apiError{err, kind.theirs}
		}
	}
	return err
}

type apiError struct{ err, kind error }

func (e *apiError) Error() string   { return e.err.Error() }
func (e *apiError) Unwrap() []error { return []error{e.err, e.kind} }

// address is the mailbox that somebody means: that of an agent, whose first
// segment may be left out, or that of people, who have some more names unless
// agents are called so.
func (c *Controller) address(to string) (string, error) {
	root := c.fleet().tree.Root.Name
	name := strings.Trim(to, "/")
	if name == mail.People {
		return mail.People, nil
	}
	for _, path := range []string{name, root + "/" + name} {
		if c.fleet().agents[path] != nil {
			return path, nil
		}
		if c.fleet().nodes[path] != nil {
			return "", fmt.Errorf("%w: %s is a supervisor, and mail goes to one agent", api.ErrInvalid, path)
		}
	}
	if name == "human" || name == "user" {
		return mail.People, nil
	}
	hint := ""
	candidates := []string{mail.People}
	for _, path := range slices.Sorted(maps.Keys(c.fleet().agents)) {
		candidates = append(candidates, strings.TrimPrefix(path, root+"/"))
	}
	if near := suggest.Nearest(strings.TrimPrefix(name, root+"/"), candidates); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return "", &apiError{fmt.Errorf("there is no agent %.200q in the file%s", to, hint), api.ErrNotFound}
}

// mailbox is the caller's own; the zero Caller is people.
func mailbox(who api.Caller) string {
	if who == (api.Caller{}) {
		return mail.People
	}
	return who.Path
}

// SendMail is part of api.Mail.
func (c *Controller) SendMail(ctx context.Context, who api.Caller, m api.MailRequest) (mail.Message, error) {
	post := mail.Post{
		From: mailbox(who), Incarnation: who.Incarnation, Subject: m.Subject, Body: m.Body, ReplyTo: m.ReplyTo, Key: m.Key,
	}
	if m.To != "" {
		var err error
		if post.To, err = c.address(m.To); err != nil {
			return mail.Message{}, err
		}
	}
	return c.post(ctx, post)
}

// post sends a message, and tells its addressee if it can be told.
func (c *Controller) post(ctx context.Context, p mail.Post) (mail.Message, error) {
	m, fresh, err := c.mail.Send(ctx, p)
	if err != nil {
		return m, translated(err)
	}
	if fresh && m.To != mail.People {
		// What others have written has no place in what may be typed into a terminal.
		c.background.run(func(ctx context.Context) {
			c.health.Nudge(ctx, m.To, fmt.Sprintf("coppice: there is mail for you, %s. Please run: coppice agent mail read %[1]s", m.ID))
		})
	}
	return m, nil
}

// Mail is part of api.Mail.
func (c *Controller) Mail(_ context.Context, who api.Caller, all bool) ([]mail.Message, error) {
	return c.mail.List(mailbox(who), all), nil
}

// ReadMail is part of api.Mail. Who has read an answer has taken it.
func (c *Controller) ReadMail(ctx context.Context, who api.Caller, ids []string) ([]mail.Message, error) {
	messages, err := c.mail.Read(ctx, mailbox(who), who.Incarnation, ids)
	if err != nil {
		return nil, translated(err)
	}
	return messages, c.takeAll(ctx, messages)
}

// ArchiveMail is part of api.Mail.
func (c *Controller) ArchiveMail(ctx context.Context, who api.Caller, ids []string) error {
	archived, err := c.mail.Archive(ctx, mailbox(who), ids)
	if err != nil {
		return translated(err)
	}
	return c.takeAll(ctx, archived)
}

// DeliverMail is part of api.Mail.
func (c *Controller) DeliverMail(ctx context.Context, who api.Caller, key string) ([]mail.Message, error) {
	messages, err := c.mail.Deliver(ctx, mailbox(who), who.Incarnation, key)
	return messages, translated(err)
}

// mailPatience is how long the start or the end of an incarnation waits for the mail.
const mailPatience = 2 * time.Second

// beginMail readies the mailbox of an incarnation that starts.
func (c *Controller) beginMail(self supervisor.Self) {
	ctx, cancel := context.WithTimeout(context.Background(), mailPatience)
	defer cancel()
	if err := c.mail.Begin(ctx, self.Path, self.Incarnation); err != nil {
		c.opts.Logger.Warn("an agent may not be told of mail that is older than it is", "path", self.Path, "error", err)
	}
}
