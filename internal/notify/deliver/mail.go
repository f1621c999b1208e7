package deliver

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/wneessen/go-mail"

	"github.com/coppice-dev/coppice/internal/notify"
	"github.com/coppice-dev/coppice/internal/spec"
)

// maxSMTP bounds what is read of an SMTP server, in bytes.
const maxSMTP = 1 << 20

// sendMail sends the message as a mail of plain text.
func sendMail(ctx context.Context, n *spec.Notify, s secrets, m *notify.Message) error {
	message, err := newMail(n, m)
	if err != nil {
		return err
	}
	options := []mail.Option{
		mail.WithPort(n.Port), mail.WithTimeout(sendTime), mail.WithTLSPolicy(mail.TLSMandatory),
		mail.WithDialContextFunc(dialer(ctx, n)), mail.WithoutNoop(),
	}
	switch n.TLS {
	case "tls":
		options = append(options, mail.WithSSL())
	case "none":
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if n.User != "" {
		auth := mail.SMTPAuthAutoDiscover
		if n.TLS != "starttls" { // the library does not know whether what dialer returns is encrypted
			auth = mail.SMTPAuthPlainNoEnc
		}
		options = append(options, mail.WithSMTPAuth(auth), mail.WithUsername(n.User), mail.WithPassword(s.token))
	}
	client, err := mail.NewClient(n.Host, options...)
	if err != nil {
		return err
	}
	return client.DialAndSendWithContext(ctx, message)
}

// newMail returns the mail of a message. The library encodes texts, so they cannot add headers.
func newMail(n *spec.Notify, m *notify.Message) (*mail.Msg, error) {
	message := mail.NewMsg()
	for _, from := range n.From {
		if err := message.From(from); err != nil {
			return nil, err
		}
	}
	if err := message.To(n.To...); err != nil {
		return nil, err
	}
	message.Subject(m.Title)
	message.SetDateWithValue(m.At)
	message.SetMessageIDWithValue(m.ID + "@coppice")
	message.SetGenHeader("Auto-Submitted", "auto-generated") // no answers of absent people, see RFC 3834
	message.SetBodyString(mail.TypeTextPlain, m.Text+"\n")
	return message, nil
}

// dialer returns a function that connects with a mail server. The end of ctx closes the connection: the library leaves
// it open after some errors.
func dialer(ctx context.Context, n *spec.Notify) mail.DialContextFunc {
	return func(dialing context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: sendTime}).DialContext(dialing, network, address)
		if err != nil {
			return nil, err
		}
		bounded := &boundedConn{Conn: conn, left: maxSMTP}
		bounded.stop = context.AfterFunc(ctx, func() { conn.Close() })
		if n.TLS != "tls" {
			return bounded, nil
		}
		return tls.Client(bounded, &tls.Config{ServerName: n.Host, MinVersion: tls.VersionTLS12}), nil
	}
}

// boundedConn is a connection from which so much is read.
type boundedConn struct {
	net.Conn
	left int
	stop func() bool
}

var errAnswers = errors.New("the server answers with more than 1 MiB")

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errAnswers
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (c *boundedConn) Close() error {
	c.stop()
	return c.Conn.Close()
}
