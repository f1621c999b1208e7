package session

import (
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// file is a file that is followed.
type file struct {
	place
	cli    agentcli.CLI
	info   fs.FileInfo // when it was read last
	offset int64
	stream *agentcli.Stream
}

// readFiles reads what the files have more, at most a number of bytes, and reports whether that was anything.
func (f *Follower) readFiles(most int64) bool {
	before := f.read
	roots := map[agentcli.CLI]*os.Root{}
	for _, one := range f.files {
		root, ok := roots[one.cli]
		if !ok {
			var err error
			if root, err = f.open(one.cli); err == nil {
				defer root.Close()
			}
			roots[one.cli] = root
		}
		if root != nil {
			f.readFile(root, one, most-(f.read-before))
		}
	}
	return f.read > before
}

func (f *Follower) readFile(root *os.Root, one *file, most int64) {
	in, info, err := openFile(root, one.path)
	if err != nil {
		one.stream = nil // another file may take its place
		return
	}
	defer in.Close()
	if one.stream == nil || !os.SameFile(info, one.info) || info.Size() < one.offset {
		one.offset, one.stream = 0, f.stream(one) // it is new, or another one, or was truncated
	}
	one.info = info
	buffer := make([]byte, min(chunk, max(0, info.Size()-one.offset)))
	for most > 0 && len(buffer) > 0 && f.read <= maxRead {
		n, err := in.ReadAt(buffer[:min(int64(len(buffer)), most)], one.offset)
		one.stream.Write(buffer[:n])
		one.offset += int64(n)
		f.read += int64(n)
		most -= int64(n)
		if err != nil || n == 0 {
			return
		}
	}
}

// stream returns the stream that reads a file, and adds its events to the total. What subagents do decides nothing:
// only what they use counts.
func (f *Follower) stream(one *file) *agentcli.Stream {
	return &agentcli.Stream{CLI: one.cli, Source: agentcli.FromSession, Each: func(e agentcli.Event) {
		if !one.sub || e.Kind == agentcli.Tokens {
			f.total.Add(e)
		}
	}}
}

// openFile opens a regular file below a root. No symbolic link leads out of it, and nothing blocks.
func openFile(root *os.Root, path string) (*os.File, fs.FileInfo, error) {
	in, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	if err != nil {
		in.Close()
		return nil, nil, err
	}
	return in, info, nil
}

// readStart reads the start of a file.
func readStart(root *os.Root, path string, most int64) []byte {
	in, _, err := openFile(root, path)
	if err != nil {
		return nil
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return nil
	}
	return text
}
