package api

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/coppice-dev/coppice/internal/mail"
)

// Mail is the post between agents and people, see package mail. Who asks is an
// agent, or people if it is the zero Caller; each has one mailbox. A client is
// one of them, so its methods are without it. Errors: ErrNotFound, ErrInvalid,
// ErrConflict where a mailbox is full.
type Mail interface {
	SendMail(ctx context.Context, who Caller, m MailRequest) (mail.Message, error)
	// Mail lists what is unread, or all that is kept; without bodies.
	Mail(ctx context.Context, who Caller, all bool) ([]mail.Message, error)
	// ReadMail returns messages with their bodies and marks them as read.
	ReadMail(ctx context.Context, who Caller, ids []string) ([]mail.Message, error)
	ArchiveMail(ctx context.Context, who Caller, ids []string) error
	// DeliverMail returns what is unread and was not told to this incarnation
	// yet; with the same key the same again.
	DeliverMail(ctx context.Context, who Caller, key string) ([]mail.Message, error)
}

// MailRequest is a message that is to be sent.
type MailRequest struct {
	To      string `json:"to,omitempty"` // path of an agent, or people; may be left out of a reply
	Subject string `json:"subject,omitempty"`
	Body    string `json:"body,omitempty"`
	ReplyTo string `json:"reply_to,omitempty"`
	Key     string `json:"key,omitempty"` // what is sent again under the same key is delivered once
}

// MailIDs are messages of the caller's mailbox.
type MailIDs struct {
	IDs []string `json:"ids"`
}

// DeliverRequest is the body of POST /v1/agent/mail/deliver.
type DeliverRequest struct {
	Key string `json:"key,omitempty"`
}

// maxLetter is the body of a request with a long text in it, in bytes: in JSON
// a byte may take six.
const maxLetter = 6*mail.MaxBody + 8<<10

func mailRoutes() []route {
	all := []param{{name: "all", kind: "boolean"}}
	routes := []route{{method: "POST", path: "/v1/agent/mail/deliver", agent: true, body: DeliverRequest{}, answer: []mail.Message{}, serve: (*call).deliverMail}}
	for _, base := range []string{"/v1", agentBase} {
		agent := base == agentBase
		routes = append(routes,
			route{method: "GET", path: base + "/mail", agent: agent, params: all, answer: []mail.Message{}, serve: (*call).mail},
			route{method: "POST", path: base + "/mail/send", agent: agent, body: MailRequest{}, maxBody: maxLetter, answer: mail.Message{}, serve: (*call).sendMail},
			route{method: "POST", path: base + "/mail/read", agent: agent, body: MailIDs{}, answer: []mail.Message{}, serve: (*call).readMail},
			route{method: "POST", path: base + "/mail/archive", agent: agent, body: MailIDs{}, serve: (*call).archiveMail})
	}
	return routes
}

// agentBase is where what agents may ask is.
const agentBase = "/v1/agent"

func (c *call) mail() error {
	messages, err := c.service.Mail(c.r.Context(), c.caller, c.query.flag("all"))
	if err != nil {
		return err
	}
	return c.answer(orEmpty(messages))
}

func (c *call) sendMail() error {
	var req MailRequest
	if err := c.body(&req); err != nil {
		return err
	}
	m, err := c.service.SendMail(c.r.Context(), c.caller, req)
	if err != nil {
		return err
	}
	return c.answer(m)
}

// ids reads which messages a request is about.
func (c *call) ids() ([]string, error) {
	var req MailIDs
	if err := c.body(&req); err != nil {
		return nil, err
	}
	if len(req.IDs) == 0 {
		return nil, fmt.Errorf("%w: there are no ids", ErrInvalid)
	}
	return req.IDs, nil
}

func (c *call) readMail() error {
	ids, err := c.ids()
	if err != nil {
		return err
	}
	messages, err := c.service.ReadMail(c.r.Context(), c.caller, ids)
	if err != nil {
		return err
	}
	return c.answer(orEmpty(messages))
}

func (c *call) archiveMail() error {
	ids, err := c.ids()
	if err != nil {
		return err
	}
	if err := c.service.ArchiveMail(c.r.Context(), c.caller, ids); err != nil {
		return err
	}
	return c.done()
}

func (c *call) deliverMail() error {
	var req DeliverRequest
	if err := c.body(&req); err != nil {
		return err
	}
	messages, err := c.service.DeliverMail(c.r.Context(), c.caller, req.Key)
	if err != nil {
		return err
	}
	return c.answer(orEmpty(messages))
}

// own is the path of something that agents and people can ask, for who this
// client acts as.
func (c *Client) own(path string) string {
	if c.agent {
		return "/agent" + path
	}
	return path
}

// SendMail sends a message and returns when it is durable.
func (c *Client) SendMail(ctx context.Context, m MailRequest) (sent mail.Message, err error) {
	return sent, c.call(ctx, "POST", c.own("/mail/send"), nil, m, &sent)
}

// Mail lists what is unread, or all that is kept, without bodies.
func (c *Client) Mail(ctx context.Context, all bool) (messages []mail.Message, err error) {
	query := url.Values{"all": {strconv.FormatBool(all)}}
	return messages, c.call(ctx, "GET", c.own("/mail"), query, nil, &messages)
}

// ReadMail returns messages with their bodies and marks them as read.
func (c *Client) ReadMail(ctx context.Context, ids ...string) (messages []mail.Message, err error) {
	return messages, c.call(ctx, "POST", c.own("/mail/read"), nil, MailIDs{ids}, &messages)
}

// ArchiveMail puts messages away.
func (c *Client) ArchiveMail(ctx context.Context, ids ...string) error {
	return c.call(ctx, "POST", c.own("/mail/archive"), nil, MailIDs{ids}, nil)
}

// DeliverMail returns the unread messages that this incarnation of an agent was
// not told of yet; with the same key, which may be empty, the same ones again.
func (c *Client) DeliverMail(ctx context.Context, key string) (messages []mail.Message, err error) {
	return messages, c.call(ctx, "POST", "/agent/mail/deliver", nil, DeliverRequest{key}, &messages)
}
