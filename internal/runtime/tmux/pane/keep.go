package pane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/runtime"
	"github.com/coppice-dev/coppice/internal/runtime/logfile"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

const (
	readSize     = 64 << 10
	tailSize     = 32 << 10 // bytes of output that the last lines are taken from
	writeTimeout = 10 * time.Second
	// answerTimeout bounds the delay of an answer by output that does not end.
	answerTimeout = 500 * time.Millisecond
)

// keeper writes to the log what tmux pipes to it.
type keeper struct {
	log   *logfile.Writer
	run   uint64 // incarnation
	guard guard

	mu        sync.Mutex // held from a read to the end of its write
	buf       []byte
	received  int64
	tail      []byte
	followers map[chan struct{}]struct{}
}

func keep(dir, token, run, maxSize, kept, deadline string) error {
	debug.SetGCPercent(50) // the first collection is at 2 MB, which an idle keeper stays below
	if err := os.Chdir(dir); err != nil {
		return err
	}
	// tmux does not show its errors.
	if f, err := private.OpenFile(KeeperLog, os.O_WRONLY|os.O_CREATE|os.O_APPEND); err == nil {
		os.Stderr = f
	}
	size, err1 := strconv.ParseInt(maxSize, 10, 64)
	n, err2 := strconv.Atoi(kept)
	incarnation, err3 := strconv.ParseUint(run, 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	k := &keeper{
		log: logfile.NewWriter(logfile.Name), run: incarnation, buf: make([]byte, readSize),
		followers: make(map[chan struct{}]struct{}),
		guard:     guard{dir: dir, run: incarnation, sweeper: new(proc.Sweeper)},
	}
	k.log.Limit(runtime.Log{MaxSize: size, Keep: n})
	if token != "" {
		k.log.Begin(k.run)
	}
	if deadline != "" {
		if err := k.guard.watch(deadline); err != nil {
			return err
		}
	}
	os.Remove(LogSocket)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: LogSocket, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false) // it may belong to a successor by then
	if err := os.Chmod(LogSocket, 0o600); err != nil {
		return err
	}
	go k.accept(l)
	if token != "" {
		c, err := hello(Keeper, token)
		if err != nil {
			return err
		}
		c.Close()
	}
	if err := syscall.SetNonblock(0, true); err != nil {
		return err
	}
	return k.read(os.NewFile(0, "pane"))
}

// read reads until the end of the pipe.
func (k *keeper) read(f *os.File) error {
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	for {
		var rerr error
		err := rc.Read(func(uintptr) bool {
			rerr = k.take()
			return !errors.Is(rerr, syscall.EAGAIN)
		})
		if err = errors.Join(err, rerr); err != nil {
			if errors.Is(err, io.EOF) {
				k.log.End(k.run, "", false)
				k.guard.linger()
				return nil
			}
			return fmt.Errorf("reading the output of the pane: %w", err)
		}
	}
}

// take passes on what one read returns.
func (k *keeper) take() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		n, err := syscall.Read(0, k.buf)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		}
		k.log.Append(k.buf[:n])
		k.received += int64(n)
		k.tail = append(k.tail, k.buf[:n]...)
		if len(k.tail) > 2*tailSize {
			k.tail = append(k.tail[:0], k.tail[len(k.tail)-tailSize:]...)
		}
		for c := range k.followers {
			select {
			case c <- struct{}{}:
			default:
			}
		}
		return nil
	}
}

// flush reads what is available and returns the total. It returns after answerTimeout even if
// there is more, since the client waits.
func (k *keeper) flush() *Message {
	for end := time.Now().Add(answerTimeout); time.Now().Before(end); {
		if err := k.take(); err != nil {
			break
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return &Message{Type: Flushed, Received: k.received, Tail: lastLines(k.tail, k.received > int64(len(k.tail)))}
}

// maxLine bounds a line of the tail, in bytes.
const maxLine = 2 << 10

// lastLines splits the end of the output into lines.
func lastLines(b []byte, cut bool) []string {
	b = bytes.TrimSuffix(b, []byte("\n"))
	if len(b) == 0 {
		return nil
	}
	all := bytes.Split(b, []byte("\n"))
	if cut && len(all) > 1 {
		all = all[1:]
	}
	all = all[max(0, len(all)-proc.DefaultTail):]
	lines := make([]string, len(all))
	for i, l := range all {
		text := strings.ToValidUTF8(string(bytes.TrimSuffix(l, []byte("\r"))), "\uFFFD")
		if len(text) > maxLine {
			text = strings.ToValidUTF8(text[:maxLine], "") + "…"
		}
		lines[i] = text
	}
	return lines
}

func (k *keeper) accept(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // nothing tells when descriptors are free
			continue
		}
		if conn, err := NewConn(c); err == nil {
			go k.serve(conn)
		}
	}
}

func (k *keeper) serve(c *Conn) {
	defer c.Close()
	send := func(m *Message) bool {
		c.SetWriteDeadline(time.Now().Add(writeTimeout))
		return c.Send(m) == nil
	}
	for {
		m, err := c.Receive()
		if err != nil {
			return
		}
		switch m.Type {
		case Flush:
			if !send(k.flush()) {
				return
			}
		case Quit:
			k.flush()
			k.log.End(k.run, "", false)
			c.Close() // the client waits for that
			os.Exit(0)
		case Deadline:
			if k.guard.watch(string(m.File)) != nil || !send(&Message{Type: Watches}) {
				return
			}
		case Follow:
			k.follow(c, send)
			return
		default:
			return
		}
	}
}

// follow reports each time that the log has grown, until the client hangs up.
func (k *keeper) follow(c *Conn, send func(*Message) bool) {
	grew := make(chan struct{}, 1)
	grew <- struct{}{} // the client does not know the output before its connection
	k.mu.Lock()
	k.followers[grew] = struct{}{}
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.followers, grew)
	}()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		c.Receive()
	}()
	for {
		select {
		case <-grew:
			if !send(&Message{Type: Grew}) {
				return
			}
		case <-gone:
			return
		}
	}
}
