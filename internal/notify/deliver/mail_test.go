package deliver

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/spec"
)

// certificate is the one of the servers of tests.
var certificate tls.Certificate

func TestMain(m *testing.M) {
	s := httptest.NewTLSServer(nil)
	certificate = s.TLS.Certificates[0]
	dir, err := os.MkdirTemp("", "deliver")
	if err != nil {
		panic(err)
	}
	trusted := filepath.Join(dir, "trusted.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(trusted, text, 0o600); err != nil {
		panic(err)
	}
	s.Close()
	os.Setenv("SSL_CERT_FILE", trusted)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// mailbox is an SMTP server.
type mailbox struct {
	mu    sync.Mutex
	from  string
	to    []string
	mails []string
}

func (b *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &smtpSession{b, false}, nil }

type smtpSession struct {
	b  *mailbox
	in bool
}

func (s *smtpSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *smtpSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "me" || password != "s3cret" {
			return fmt.Errorf("the password %s is wrong", password)
		}
		s.in = true
		return nil
	}), nil
}

func (s *smtpSession) Mail(from string, _ *smtp.MailOptions) error {
	if !s.in {
		return smtp.ErrAuthRequired
	}
	s.b.from, s.b.to = from, nil
	return nil
}

func (s *smtpSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.b.to = append(s.b.to, to)
	return nil
}

func (s *smtpSession) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.mails = append(s.b.mails, string(data))
	return err
}

func (*smtpSession) Reset()        {}
func (*smtpSession) Logout() error { return nil }

// serveMail serves a mailbox, and returns its port.
func serveMail(t *testing.T, b *mailbox, way string) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	s := smtp.NewServer(b)
	s.Domain, s.AllowInsecureAuth = "127.0.0.1", true
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	switch way {
	case "tls":
		l = tls.NewListener(l, config)
	case "starttls":
		s.TLSConfig = config
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return port
}

func mailTo(port int, way string) *spec.Notify {
	return &spec.Notify{Via: spec.Mail, Host: "127.0.0.1", Port: port, TLS: way, User: "me",
		Token: spec.Secret{Env: "MAIL_PASSWORD"}, From: []string{`"Coppice" <coppice@example.com>`},
		To: []string{"<a@example.com>", "<b@example.com>"}}
}

func TestMail(t *testing.T) {
	for _, way := range []string{"starttls", "tls", "none"} {
		t.Run(way, func(t *testing.T) {
			t.Setenv("MAIL_PASSWORD", "s3cret")
			b := &mailbox{}
			n := mailTo(serveMail(t, b, way), way)
			m := message()
			m.Title = "ünüsual\r\nBcc: c@example.com\r\n\r\nbody"
			m.Text += "\n.\nQUIT\n" + strings.Repeat("x", 3000)
			if err := New(Options{}).Send(t.Context(), n, m); err != nil {
				t.Fatal(err)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(b.mails) != 1 || b.from != "coppice@example.com" ||
				fmt.Sprint(b.to) != "[a@example.com b@example.com]" {
				t.Fatalf("%d mails of %s to %s", len(b.mails), b.from, b.to)
			}
			got, err := netmail.ReadMessage(strings.NewReader(b.mails[0]))
			if err != nil {
				t.Fatal(err)
			}
			h := got.Header
			if h.Get("Bcc") != "" || h.Get("From") != `"Coppice" <coppice@example.com>` ||
				h.Get("Auto-Submitted") != "auto-generated" || h.Get("Message-Id") != "<0123@coppice>" ||
				!strings.HasPrefix(h.Get("Content-Type"), "text/plain") ||
				!strings.HasPrefix(h.Get("Subject"), "=?UTF-8?q?") {
				t.Errorf("%s", b.mails[0])
			}
			if !strings.Contains(b.mails[0], "coppice answer q-1") || !strings.Contains(b.mails[0], "QUIT") {
				t.Errorf("%s", b.mails[0])
			}
			t.Setenv("MAIL_PASSWORD", "wr0ng")
			err = New(Options{}).Send(t.Context(), n, m)
			if err == nil || strings.Contains(err.Error(), "wr0ng") || !strings.Contains(err.Error(), "[secret]") {
				t.Errorf("%v", err)
			}
		})
	}
}

// A password is sent over no connection that others can read, and a hostile server costs little.
func TestHostileMail(t *testing.T) {
	t.Setenv("MAIL_PASSWORD", "s3cret")
	b := &mailbox{}
	err := New(Options{}).Send(t.Context(), mailTo(serveMail(t, b, "none"), "starttls"), message())
	if err == nil || !strings.Contains(err.Error(), "STARTTLS") {
		t.Errorf("%v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for err == nil { // a greeting without end
			_, err = conn.Write([]byte(strings.Repeat("x", 1<<16)))
		}
	})
	err = New(Options{}).Send(t.Context(), mailTo(l.Addr().(*net.TCPAddr).Port, "none"), message())
	if err == nil || !strings.Contains(err.Error(), "more than 1 MiB") {
		t.Errorf("%.300v", err)
	}
	l.Close()
	serving.Wait()
}
