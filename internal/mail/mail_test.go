package mail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

func open(t fataler, s store.Store) *Service {
	t.Helper()
	b, err := Open(context.Background(), Options{Store: s, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return b
}

func send(t fataler, b *Service, p Post) Message {
	t.Helper()
	m, _, err := b.Send(context.Background(), p)
	if err != nil {
		t.Fatalf("sending %+v: %v", p, err)
	}
	return m
}

func ids(messages []Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, m.ID)
	}
	return strings.Join(all, " ")
}

func TestNormalise(t *testing.T) {
	for name, test := range map[string]struct {
		post Post
		want string // of the error, "" for none
	}{
		"plain":           {Post{To: "a", Subject: "s", Body: "b"}, ""},
		"body alone":      {Post{To: "a", Body: "b"}, ""},
		"largest":         {Post{To: "a", Subject: strings.Repeat("s", MaxSubject), Body: strings.Repeat("b", MaxBody)}, ""},
		"nothing":         {Post{To: "a", Body: " \n"}, "neither a subject nor a body"},
		"no recipient":    {Post{Body: "b"}, "missing recipient"},
		"reply":           {Post{ReplyTo: "m-1", Body: "b"}, ""},
		"body too large":  {Post{To: "a", Body: strings.Repeat("b", MaxBody+1)}, "65537 bytes, at most 65536"},
		"subject too":     {Post{To: "a", Subject: strings.Repeat("s", MaxSubject+1)}, "257 bytes, at most 256"},
		"two lines":       {Post{To: "a", Subject: "a\nb"}, "not one line"},
		"escape":          {Post{To: "a", Subject: "a\x1b[31mb"}, "not one line of plain text"},
		"key too long":    {Post{To: "a", Subject: "a", Key: strings.Repeat("k", MaxKey+1)}, "129 bytes"},
		"key not UTF-8":   {Post{To: "a", Subject: "a", Key: "\xff"}, "UTF-8"},
		"bad UTF-8":       {Post{To: "a", Subject: "a\xffb", Body: "\xc0\x80"}, ""},
		"grows with that": {Post{To: "a", Body: strings.Repeat("\xff\x80x", MaxBody/3)}, "at most 65536"},
	} {
		p, err := test.post.normalise()
		switch {
		case test.want == "" && err != nil, test.want != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %q", name, err, test.want)
		case err == nil && (!utf8.ValidString(p.Subject) || !utf8.ValidString(p.Body)):
			t.Errorf("%s: %q %q", name, p.Subject, p.Body)
		case err != nil && err.Error() != plaintext.Line(err.Error()):
			t.Errorf("%s: the error is not plain: %q", name, err)
		}
	}
}

func TestIDs(t *testing.T) {
	for text, want := range map[string]uint64{"m-7": 7, "M-7": 7, "7": 7, "m-0": 0, "": 0, "m-": 0, "m--1": 0, "m-+1": 0, "q-7": 0, "m-99999999999999999999": 0, "\x1b": 0} {
		n, err := parseID(text)
		if n != want && want != 0 || (err == nil) != (want != 0) || err != nil && !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %d, %v; want %d", text, n, err, want)
		}
	}
}

func FuzzTitle(f *testing.F) {
	f.Add("a\nb")
	f.Add("\x1b[31m\n\n x\ty ")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD")
		got := Title(text)
		if utf8.RuneCountInString(got) > maxTitle || len(got) > MaxSubject || strings.ContainsAny(got, "\n\x1b\x00\t") || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
		if r := replySubject(got); len(r) > MaxSubject || replySubject(r) != r {
			t.Errorf("reply %q", r)
		}
	})
}

// A message is sent once under a key, even if it was archived since.
func TestKeys(t *testing.T) {
	s := memory.New()
	defer s.Close()
	b := open(t, s)
	p := Post{From: "t/a", Incarnation: 1, To: "t/b", Subject: "s", Body: "b", Key: "k"}
	first := send(t, b, p)
	if _, err := b.Archive(t.Context(), "t/b", []string{first.ID}); err != nil {
		t.Fatal(err)
	}
	p.Incarnation = 2
	for range 2 {
		m, fresh, err := b.Send(t.Context(), p)
		if err != nil || fresh || m.ID != first.ID || m.Incarnation != 1 {
			t.Errorf("%+v, %v, %v", m, fresh, err)
		}
		b = open(t, s)
	}
	p.Body = "another"
	if _, _, err := b.Send(t.Context(), p); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), first.ID) {
		t.Errorf("another message under the same key: %v", err)
	}
	p.From = "t/c" // keys belong to a sender
	if m := send(t, b, p); m.ID == first.ID {
		t.Errorf("%+v", m)
	}
}

func TestReply(t *testing.T) {
	s := memory.New()
	defer s.Close()
	b := open(t, s)
	question := send(t, b, Post{From: "t/a", To: "t/b", Subject: "What?"})
	answer := send(t, b, Post{From: "t/b", ReplyTo: question.ID, Body: "That."})
	if answer.To != "t/a" || answer.Subject != "Re: What?" || answer.ReplyTo != question.ID {
		t.Errorf("%+v", answer)
	}
	if more := send(t, b, Post{From: "t/b", ReplyTo: "2", Body: "And that."}); more.To != "t/a" || more.Subject != "Re: What?" {
		t.Errorf("%+v", more)
	}
	for _, p := range []Post{{From: "t/c", ReplyTo: question.ID, Body: "x"}, {From: "t/a", ReplyTo: "m-9", Body: "x"}, {From: "t/a", ReplyTo: "x", Body: "x"}} {
		if _, _, err := b.Send(t.Context(), p); !errors.Is(err, ErrNotFound) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestReadAndArchive(t *testing.T) {
	s := memory.New()
	defer s.Close()
	b := open(t, s)
	ctx := t.Context()
	one := send(t, b, Post{From: "t/a", To: "t/b", Body: "the first\nof two"})
	two := send(t, b, Post{From: People, To: "t/b", Subject: "second"})
	other := send(t, b, Post{From: "t/b", To: "t/a", Subject: "to another"})
	if one.Subject != "the first" || one.Size != len("the first\nof two") || one.Body != "" {
		t.Errorf("%+v", one)
	}
	if got := ids(b.List("t/b", false)); got != one.ID+" "+two.ID || b.Unread("t/b") != 2 {
		t.Errorf("inbox: %s, %d unread", got, b.Unread("t/b"))
	}
	// If one message is missing or of another mailbox, none is read.
	for _, id := range []string{other.ID, "m-77", "x"} {
		if _, err := b.Read(ctx, "t/b", 3, []string{one.ID, id}); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
		if _, err := b.Archive(ctx, "t/b", []string{one.ID, id}); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if b.Unread("t/b") != 2 {
		t.Error("something was read")
	}
	got, err := b.Read(ctx, "t/b", 3, []string{two.ID, one.ID, "1"})
	if err != nil || ids(got) != two.ID+" "+one.ID || got[1].Body != "the first\nof two" || got[1].ReadBy != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	at := got[1].ReadAt
	if got, err = b.Read(ctx, "t/b", 4, []string{one.ID}); err != nil || got[0].ReadBy != 3 || !got[0].ReadAt.Equal(at) {
		t.Errorf("read again: %+v, %v", got, err)
	}
	if _, err := b.Archive(ctx, "t/b", []string{one.ID}); err != nil {
		t.Fatal(err)
	}
	b = open(t, s)
	if all := b.List("t/b", true); ids(all) != one.ID+" "+two.ID || all[0].ArchivedAt.IsZero() || !all[1].ArchivedAt.IsZero() || b.Unread("t/b") != 0 || b.Unread("t/a") != 1 {
		t.Errorf("%+v", all)
	}
	var many []string
	for i := range maxBatch + 1 {
		many = append(many, fmt.Sprint(i+1))
	}
	if _, err := b.Read(ctx, "t/b", 1, many); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// A lost body affects only its own message.
func TestLostBody(t *testing.T) {
	s := memory.New()
	defer s.Close()
	b := open(t, s)
	lost, kept := send(t, b, Post{From: "t/a", To: "t/b", Subject: "x"}), send(t, b, Post{From: "t/a", To: "t/b", Subject: "y", Body: "kept"})
	if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{{Kind: store.Delete, Key: b.bodyKey(1)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Read(t.Context(), "t/b", 1, []string{lost.ID}); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), lost.ID) {
		t.Error(err)
	}
	if got, err := b.Read(t.Context(), "t/b", 1, []string{kept.ID}); err != nil || got[0].Body != "kept" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Unread messages are delivered once to each incarnation.
func TestDeliver(t *testing.T) {
	s := memory.New()
	defer s.Close()
	b := open(t, s)
	ctx := t.Context()
	told := func(incarnation uint64, key string) string {
		t.Helper()
		b = open(t, s)
		got, err := b.Deliver(ctx, "t/b", incarnation, key)
		if err != nil {
			t.Fatal(err)
		}
		return ids(got)
	}
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	want("nothing", told(1, ""), "")
	send(t, b, Post{From: "t/a", To: "t/b", Subject: "1"})
	send(t, b, Post{From: "t/a", To: "t/b", Subject: "2"})
	send(t, b, Post{From: "t/b", To: "t/a", Subject: "to another"})
	want("both", told(1, "k1"), "m-1 m-2")
	want("again", told(1, ""), "")
	want("the answer was lost", told(1, "k1"), "m-1 m-2")
	send(t, b, Post{From: "t/a", To: "t/b", Subject: "4"})
	want("the new one", told(1, "k2"), "m-4")
	if _, err := b.Read(ctx, "t/b", 1, []string{"m-1"}); err != nil {
		t.Fatal(err)
	}
	want("the successor", told(2, "k2"), "m-2 m-4")
	want("again", told(2, "k3"), "")
	// After numbers restart, they belong to other incarnations.
	if err := b.Begin(ctx, "t/b", 3); err != nil {
		t.Fatal(err)
	}
	want("the predecessor was told", told(2, ""), "")
	if err := b.Begin(ctx, "t/b", 1); err != nil {
		t.Fatal(err)
	}
	want("the first of another run", told(1, ""), "m-2 m-4")
	for range maxBatch {
		send(t, b, Post{From: "t/a", To: "t/b", Subject: "x"})
	}
	if all, _ := b.Deliver(ctx, "t/b", 2, ""); len(all) != maxBatch {
		t.Errorf("%d at a time", len(all))
	}
	if rest, _ := b.Deliver(ctx, "t/b", 2, ""); len(rest) != 2 {
		t.Errorf("then %d", len(rest))
	}
	if err := b.Begin(ctx, "t/b", 1); err != nil { // takes several steps
		t.Fatal(err)
	}
	if all, _ := b.Deliver(ctx, "t/b", 1, ""); len(all) != maxBatch {
		t.Errorf("%d after all that", len(all))
	}
	if _, err := b.Deliver(ctx, "t/b", 1, strings.Repeat("k", MaxKey+1)); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// ArchiveSent archives an unread message.
func TestArchiveSent(t *testing.T) {
	s := memory.New()
	defer s.Close()
	b := open(t, s)
	for range 2 {
		m := send(t, b, Post{From: People, To: "t/b", Subject: "x", Key: "k"})
		if err := b.ArchiveSent(t.Context(), People, "k"); err != nil || b.Unread("t/b") != 0 || m.ID != "m-1" {
			t.Errorf("%v, %d unread", err, b.Unread("t/b"))
		}
	}
	if err := b.ArchiveSent(t.Context(), People, "none"); err != nil {
		t.Error(err)
	}
}

func TestFull(t *testing.T) {
	s := memory.New()
	defer s.Close()
	b := open(t, s)
	for range MaxUnread {
		send(t, b, Post{From: "t/a", To: "t/b", Subject: "x"})
	}
	if _, _, err := b.Send(t.Context(), Post{From: "t/a", To: "t/b", Subject: "x"}); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "t/b has 1000 unread") {
		t.Fatal(err)
	}
	send(t, b, Post{From: "t/b", To: "t/a", Subject: "another mailbox"})
	if _, err := b.Archive(t.Context(), "t/b", []string{"m-5"}); err != nil {
		t.Fatal(err)
	}
	send(t, b, Post{From: "t/a", To: "t/b", Subject: "x"})
}

// A mailbox keeps to its limit: archived messages are removed first, then read ones, and never
// unread ones.
func TestMost(t *testing.T) {
	s := memory.New()
	defer s.Close()
	b := open(t, s)
	ctx := t.Context()
	var few []string
	for i := range MaxMessages {
		m := send(t, b, Post{From: "t/a", To: "t/b", Subject: "x"})
		if i > 0 { // the first is never read
			few = append(few, m.ID)
		}
		if len(few) == maxBatch || i == MaxMessages-1 {
			if _, err := b.Read(ctx, "t/b", 1, few); err != nil {
				t.Fatal(err)
			}
			few = nil
		}
	}
	if _, err := b.Archive(ctx, "t/b", []string{"m-7"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		send(t, b, Post{From: "t/a", To: "t/b", Subject: "x"})
	}
	all := b.List("t/b", true)
	if len(all) != MaxMessages || ids(all[:6]) != "m-1 m-3 m-4 m-5 m-6 m-8" {
		t.Errorf("%d messages: %s", len(all), ids(all[:6]))
	}
	if bodies, _, err := s.Snapshot(ctx, "mail/bodies"); len(bodies) != MaxMessages || err != nil {
		t.Errorf("%d bodies, %v", len(bodies), err)
	}
}

// Old archived messages are removed.
func TestArchiveAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		defer s.Close()
		b := open(t, s)
		for range 3 {
			send(t, b, Post{From: "t/a", To: "t/b", Subject: "x"})
		}
		for _, id := range []string{"m-2", "m-1"} {
			if _, err := b.Archive(t.Context(), "t/b", []string{id}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(KeepArchive)
		}
		send(t, b, Post{From: "t/a", To: "t/b", Subject: "x"})
		if got := ids(b.List("t/b", true)); got != "m-1 m-3 m-4" {
			t.Errorf("%s", got)
		}
		time.Sleep(time.Second)
		send(t, b, Post{From: "t/a", To: "t/b", Subject: "x"})
		if got := ids(b.List("t/b", true)); got != "m-3 m-4 m-5" {
			t.Errorf("%s", got)
		}
	})
}

// Acknowledged messages are in the file.
func TestSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.db")
	for i := range 3 {
		db, err := sqlite.Open(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		b := open(t, db)
		if got := len(b.List("t/b", true)); got != i {
			t.Errorf("%d messages, want %d", got, i)
		}
		body := fmt.Sprint("body\x00\x1b ", i)
		m := send(t, b, Post{From: "t/a", To: "t/b", Subject: "x", Body: body})
		if got, err := b.Read(t.Context(), "t/b", 1, []string{m.ID}); err != nil || got[0].Body != body {
			t.Errorf("%+v, %v", got, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Invalid records affect no other ones.
func TestBadRecords(t *testing.T) {
	s := memory.New()
	defer s.Close()
	b := open(t, s)
	for range 5 {
		send(t, b, Post{From: "t/a", To: "t/b", Subject: "x"})
	}
	for n, value := range map[uint64]string{1: "{}", 2: "", 3: `{"id":"m-1","from":"t/a","to":"t/b"}`, 4: `{"id":"m-4","from":"t/a","to":"t/b","size":-1}`} {
		if _, err := s.Apply(t.Context(), store.Fence{}, nil, []store.Op{{Kind: store.Put, Key: store.SequenceKey("mail/messages", n), Value: []byte(value)}}); err != nil {
			t.Fatal(err)
		}
	}
	b = open(t, s)
	if got := ids(b.List("t/b", true)); got != "m-5" || b.Unread("t/b") != 1 {
		t.Errorf("%s, %d unread", got, b.Unread("t/b"))
	}
}
