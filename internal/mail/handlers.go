package mail

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/internal/token"
)

// Register adds the handlers of all mail routes to a server.
func (s *Service) Register(server *api.Server) {
	List.Handle(server, s.list)
	Send.Handle(server, s.send)
	Read.Handle(server, s.read)
	Archive.Handle(server, s.archive)
	Deliver.Handle(server, func(ctx context.Context, who token.Caller, req DeliverRequest) ([]Message, error) {
		return s.Deliver(ctx, who.Path, who.Incarnation, req.Key)
	})
}

// RegisterReadOnly adds the handlers that work without a daemon. Reading marks nothing as read.
func (s *Service) RegisterReadOnly(server *api.Server) {
	List.Handle(server, s.list)
	Read.Handle(server, func(ctx context.Context, who token.Caller, req IDs) ([]Message, error) {
		return s.Peek(ctx, mailbox(who), req.IDs)
	})
}

// mailbox returns the address of a caller.
func mailbox(who token.Caller) string {
	if who == (token.Caller{}) {
		return People
	}
	return who.Path
}

func (s *Service) list(_ context.Context, who token.Caller, req ListRequest) ([]Message, error) {
	return s.List(mailbox(who), req.All), nil
}

func (s *Service) send(ctx context.Context, who token.Caller, req SendRequest) (Message, error) {
	p := Post{
		From: mailbox(who), Incarnation: who.Incarnation,
		Subject: req.Subject, Body: req.Body, ReplyTo: req.ReplyTo, Key: req.Key,
	}
	if req.To != "" {
		var err error
		if p.To, err = s.address(req.To); err != nil {
			return Message{}, err
		}
	}
	m, _, err := s.Send(ctx, p)
	return m, err
}

func (s *Service) read(ctx context.Context, who token.Caller, req IDs) ([]Message, error) {
	messages, err := s.Read(ctx, mailbox(who), who.Incarnation, req.IDs)
	if err != nil {
		return nil, err
	}
	return messages, s.handled(ctx, messages)
}

func (s *Service) archive(ctx context.Context, who token.Caller, req IDs) (none api.None, err error) {
	messages, err := s.Archive(ctx, mailbox(who), req.IDs)
	if err != nil {
		return none, err
	}
	return none, s.handled(ctx, messages)
}

// handled passes on messages that an agent has read or archived.
func (s *Service) handled(ctx context.Context, messages []Message) error {
	if len(messages) == 0 || messages[0].To == People || s.o.Handled == nil {
		return nil
	}
	return s.o.Handled(ctx, messages)
}

// address returns the address that a name stands for. The first segment of an agent's path may be
// left out. The names human and user stand for people unless an agent has that name.
func (s *Service) address(to string) (string, error) {
	project := s.o.Agents.Project()
	name := strings.Trim(to, "/")
	if name == People {
		return People, nil
	}
	for _, path := range []string{name, project + "/" + name} {
		if s.o.Agents.HasAgent(path) {
			return path, nil
		}
		if s.o.Agents.HasSupervisor(path) {
			return "", fmt.Errorf("%w: %s is a supervisor, and mail goes to one agent", api.ErrInvalid, path)
		}
	}
	if name == "human" || name == "user" {
		return People, nil
	}
	candidates := []string{People}
	for _, path := range s.o.Agents.Agents() {
		candidates = append(candidates, strings.TrimPrefix(path, project+"/"))
	}
	hint := ""
	if near := suggest.Nearest(strings.TrimPrefix(name, project+"/"), candidates); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return "", api.NewError(api.ErrNotFound, fmt.Sprintf("there is no agent %.200q in the file%s", to, hint))
}

// startTimeout bounds the time that Start may delay the start of an incarnation.
const startTimeout = 2 * time.Second

// Start prepares the mailbox of an incarnation that starts; see Begin. It logs a failure, which
// does not stop the incarnation from starting.
func (s *Service) Start(path string, incarnation uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.Begin(ctx, path, incarnation); err != nil {
		s.o.Logger.Warn("cannot mark older mail as undelivered; the agent may not see it in notices",
			"path", path, "error", err)
	}
}

// sentEvent returns the log entry of a message. It does not contain the body.
func sentEvent(m Message) event.Event {
	e := event.Event{
		Type: event.MailSent, Actor: m.From, Incarnation: m.Incarnation,
		Message: fmt.Sprintf("%s from %s to %s: %s", m.ID, m.From, m.To, m.Subject),
	}
	if m.To != People {
		e.Path, e.Incarnation = m.To, 0
	} else if m.From != People {
		e.Path = m.From
	}
	return e.With(map[string]any{"id": m.ID, "from": m.From, "to": m.To, "subject": m.Subject, "size": m.Size})
}
