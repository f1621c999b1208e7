package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// echo is a terminal that shows what is typed, and sizes.
func echo(ctx context.Context, v Viewer) error {
	typed := make(chan string)
	go func() {
		defer close(typed)
		buf := make([]byte, 1000)
		for v.Input != nil {
			n, err := v.Input.Read(buf)
			select {
			case typed <- string(buf[:n]):
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
		<-ctx.Done()
	}()
	for {
		select {
		case size := <-v.Sizes:
			fmt.Fprintf(v.Output, "[%dx%d]", size[0], size[1])
		case text, ok := <-typed:
			if !ok {
				return ctx.Err()
			}
			if _, err := io.WriteString(v.Output, text); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A viewer asks for earlier output, and is told the size of the terminal.
func TestWatch(t *testing.T) {
	s := start(t, canned{attach: func(_ context.Context, v Viewer) error {
		v.Resized(24, 80)
		fmt.Fprintf(v.Output, "earlier %d", v.Earlier)
		v.Resized(65535, 1)
		return nil
	}}, "", fastTimeouts())
	var got bytes.Buffer
	v := Viewer{Output: &got, Earlier: MaxEarlier, Resized: func(rows, cols uint16) {
		fmt.Fprintf(&got, "[%dx%d]", rows, cols)
	}}
	err := Attach(t.Context(), dial(t, s.socket), "app", v)
	if want := "[24x80]earlier 131072[65535x1]"; err != nil || got.String() != want {
		t.Errorf("%q, %v, want %q", got.String(), err, want)
	}
	got.Reset()
	v.Resized = nil // as of older clients
	if err := Attach(t.Context(), dial(t, s.socket), "app", v); err != nil || got.String() != "earlier 131072" {
		t.Errorf("%q, %v", got.String(), err)
	}
	v.Earlier = MaxEarlier + 1
	if err := Attach(t.Context(), dial(t, s.socket), "app", v); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestAttach(t *testing.T) {
	s := start(t, canned{attach: echo}, "", fastTimeouts())
	c := dial(t, s.socket)
	in, keyboard := io.Pipe()
	screen, out := io.Pipe()
	sizes := make(chan [2]uint16, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- Attach(t.Context(), c, "app", Viewer{Input: in, Output: out, Sizes: sizes})
		out.Close()
	}()
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(screen, got); err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	sizes <- [2]uint16{24, 80}
	expect("[24x80]")
	go io.WriteString(keyboard, "ls\x00\xff")
	expect("ls\x00\xff")
	large := strings.Repeat("0123456789", 50_000) // more than fits into a frame, or a socket
	go io.WriteString(keyboard, large)
	expect(large)
	sizes <- [2]uint16{65535, 1}
	expect("[65535x1]")
	keyboard.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The end of a terminal reports its cause, and clients can disconnect in every way.
func TestAttachEnds(t *testing.T) {
	entered, left := make(chan struct{}, 1), make(chan error, 1)
	var how error
	service := canned{attach: func(ctx context.Context, v Viewer) error {
		entered <- struct{}{}
		err := how
		if err == nil {
			err = echo(ctx, v)
		}
		left <- err
		return err
	}}
	s := start(t, service, "", fastTimeouts())
	c := dial(t, s.socket)
	never, _ := io.Pipe()
	defer never.Close()

	how = fmt.Errorf("app: %w", ErrConflict)
	if err := Attach(t.Context(), c, "app", Viewer{Input: never, Output: io.Discard}); !errors.Is(err, ErrConflict) || err.Error() != how.Error() {
		t.Error(err)
	}
	<-entered
	<-left
	how = errors.New(strings.Repeat("\x00", 100_000))
	if err := Attach(t.Context(), c, "app", Viewer{Input: never, Output: io.Discard}); err == nil || len(err.Error()) < 1000 {
		t.Error(err)
	}
	<-entered
	<-left
	how = nil

	for _, input := range []io.Reader{nil, never} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-entered; cancel() }()
		if err := Attach(ctx, c, "app", Viewer{Input: input, Output: io.Discard}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-left // the daemon has noticed
	}

	// The daemon stops.
	go func() { <-entered; s.stop() }()
	if err := Attach(t.Context(), c, "app", Viewer{Input: never, Output: io.Discard}); !errors.Is(err, ErrStopping) {
		t.Error(err)
	}
	<-left
}

// An agent that reads nothing must not keep the daemon from seeing that the
// client is gone.
func TestAttachUnread(t *testing.T) {
	left := make(chan struct{})
	p := fastTimeouts()
	p.write = 100 * time.Millisecond
	s := start(t, canned{attach: func(ctx context.Context, _ Viewer) error {
		defer close(left)
		<-ctx.Done()
		return nil
	}}, "", p)
	err := Attach(t.Context(), dial(t, s.socket), "app", Viewer{Input: endless{}, Output: io.Discard})
	if err != nil && !errors.Is(err, ErrLost) {
		t.Error(err)
	}
	<-left
}

// A client that does not speak the protocol gets its name.
func TestAttachRefused(t *testing.T) {
	s := start(t, canned{attach: echo}, "", fastTimeouts())
	for _, head := range []string{
		"", "Connection: Upgrade\r\n", "Upgrade: coppice-attach/1\r\n",
		"Connection: Upgrade\r\nUpgrade: coppice-attach/2\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\n",
	} {
		answer := exchange(t, s.socket, "POST /v1/attach?path=a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"+head+"\r\n", "\n")
		if !strings.Contains(answer, " 426 ") || !strings.Contains(answer, AttachProtocol) {
			t.Errorf("%q: %s", head, answer)
		}
	}
	// Another client's way to write the header.
	answer := exchange(t, s.socket, "POST /v1/attach?path=a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: keep-alive, upgrade\r\nUpgrade: coppice-attach/1\r\n\r\ne\x00\x00\x00\x00", "e\x00\x00\x00\x00")
	if !strings.Contains(answer, " 101 ") {
		t.Error(answer)
	}
}

// exchange sends something and reads until the end, or the text, comes.
func exchange(t *testing.T, socket, send, until string) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testTimeout))
	go io.WriteString(conn, send)
	var got bytes.Buffer
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		got.Write(buf[:n])
		if err != nil || strings.HasSuffix(got.String(), until) {
			return got.String()
		}
	}
}

// Frames that are none end the attachment, and nothing else.
func TestAttachGarbage(t *testing.T) {
	s := start(t, canned{full: true, attach: echo}, "", fastTimeouts())
	const upgrade = "POST /v1/attach?path=a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: Upgrade\r\nUpgrade: coppice-attach/1\r\n\r\n"
	for _, frames := range []string{
		"d\xff\xff\xff\xff", "d\x00\x00\x80\x01x", strings.Repeat("garbage\n", 1000), "\x00\x00\x00\x00\x00z\x00\x00\x00\x01yr\x00\x00\x00\x03abc" + "\xff\xff\xff\xff\xff",
		strings.Repeat("r\x00\x00\x00\x04abcd", 10_000) + "e\x00\x00\x00\x00", "e\x00\x00\x00\x00d\x00\x00\x00\x01x" + "e\x00\x00\x00\x00e\x00\x00\x00\x00",
	} {
		answer := exchange(t, s.socket, upgrade+frames, "\x00\x00\x00never")
		if !strings.Contains(answer, " 101 ") || !strings.Contains(answer, "\r\n\r\n") {
			t.Errorf("%.40q: %.200q", frames, answer)
		}
	}
	if err := reach(t.Context(), dial(t, s.socket)); err != nil {
		t.Error(err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("d\x00\x00\x00\x01xr\x00\x00\x00\x04abcde\x00\x00\x00\x00"))
	f.Add([]byte("d\xff\xff\xff\xff"))
	f.Add([]byte("z\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var back []byte
		var buf [maxFrame]byte
		r := iotest.HalfReader(bytes.NewReader(in))
		for {
			kind, content, err := readFrame(r, &buf)
			if err != nil {
				if err == io.EOF && !bytes.Equal(back, in) {
					t.Fatalf("%q became %q", in, back)
				}
				break
			}
			back = appendFrame(back, kind, content)
		}
		if !bytes.HasPrefix(in, back) {
			t.Fatalf("%q became %q", in, back)
		}
		// The daemon and the client take anything.
		a := &attached{ctx: t.Context(), sizes: make(chan [2]uint16, 1), typed: make(chan []byte, len(in)+1), inputTimeout: testTimeout}
		if a.receive(bytes.NewReader(in)) {
			t.Fatal("the connection ended, and goes on")
		}
		var typed bytes.Buffer
		if _, err := io.Copy(&typed, a); err != nil || typed.Len() > len(in) {
			t.Fatal(typed.Len(), err)
		}
		Viewer{Output: io.Discard, Resized: func(uint16, uint16) {}}.receive(bytes.NewReader(in))
	})
}
