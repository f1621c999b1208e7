package hash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/coppice-dev/coppice/internal/config/envfile"
	"github.com/coppice-dev/coppice/internal/spec"
)

// fileHasher hashes files in the background, a few at a time, and reads only those that
// have changed since the last time. No caller waits for a file system, except await.
type fileHasher struct {
	changed func()
	spawn   func(func(context.Context))
	slots   chan struct{}

	mu     sync.Mutex
	byPath map[string]*fileState
}

// fileState is the last observation of a file.
type fileState struct {
	hashing bool
	done    chan struct{} // closed when that is over
	again   bool          // hash it once more afterwards
	env     bool          // it has environment variables
	info    os.FileInfo   // as it was when it was read; nil if it was not there
	hash    string
	at      time.Time // when the hashing that found the hash began
}

const (
	maxParallel = 4
	// slotTime is the time for which one file may occupy a slot. Its hashing continues afterwards, for
	// as long as its file system hangs.
	slotTime = 5 * time.Second
	// maxContent is the number of bytes read of a file: of larger ones the beginning and the end,
	// and the size counts.
	maxContent = 1 << 20
	// mtimeResolution is the time for which a file must not have changed for its modification time
	// to be trusted: two changes may have the same time.
	mtimeResolution = 2 * time.Second
)

func newFileHasher(spawn func(func(context.Context)), changed func()) *fileHasher {
	return &fileHasher{changed: changed, spawn: spawn, slots: make(chan struct{}, maxParallel),
		byPath: make(map[string]*fileState)}
}

// watch hashes files now, and from now on with each refresh.
func (h *fileHasher) watch(files map[string]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for path, env := range files {
		o := h.byPath[path]
		if o == nil {
			o = new(fileState)
			h.byPath[path] = o
		}
		o.env = env
		if o.hashing {
			o.again = true
		}
		h.begin(path, o)
	}
}

// refresh hashes all wanted files and forgets the others.
func (h *fileHasher) refresh(wanted map[string]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for path, env := range wanted {
		if h.byPath[path] == nil {
			h.byPath[path] = new(fileState)
		}
		h.byPath[path].env = env
	}
	for path, o := range h.byPath {
		if _, is := wanted[path]; !is && !o.hashing {
			delete(h.byPath, path)
			continue
		}
		h.begin(path, o)
	}
}

// await hashes files and waits until that is done, or until ctx ends.
func (h *fileHasher) await(ctx context.Context, files map[string]bool) {
	h.watch(files)
	for path := range files {
		for {
			h.mu.Lock()
			o := h.byPath[path]
			hashing := o != nil && o.hashing
			var done chan struct{}
			if hashing {
				done = o.done
			}
			h.mu.Unlock()
			if !hashing {
				break
			}
			select {
			case <-done:
			case <-ctx.Done():
				return
			}
		}
	}
}

// hash returns the known hash of a file, or spec.Unread.
func (h *fileHasher) hash(path string) string {
	hash, _ := h.known(path)
	return hash
}

// known is hash with the time at which the file was read.
func (h *fileHasher) known(path string) (string, time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o := h.byPath[path]; o != nil {
		return o.hash, o.at
	}
	return spec.Unread, time.Time{}
}

// begin begins to hash a file, unless that is under way. Needs mu.
func (h *fileHasher) begin(path string, o *fileState) {
	if o.hashing {
		return
	}
	o.hashing, o.done = true, make(chan struct{})
	before, hash, env := o.info, o.hash, o.env
	h.spawn(func(ctx context.Context) {
		select {
		case h.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		done := make(chan struct{})
		go func() { // which may hang forever; there is one for each file
			defer close(done)
			at := time.Now()
			info, now := contents(path, before, hash)
			if env && now != hash {
				if _, err := envfile.Read(path); err != nil {
					now = hash // a restart with it would fail
				}
			}
			h.end(path, o, info, now, at)
		}()
		late := time.NewTimer(slotTime)
		defer late.Stop()
		select {
		case <-done:
		case <-late.C:
		case <-ctx.Done():
		}
		<-h.slots
	})
}

// end notes the result of hashing a file.
func (h *fileHasher) end(path string, o *fileState, info os.FileInfo, hash string, at time.Time) {
	h.mu.Lock()
	news := hash != o.hash || o.again
	o.hashing, o.info = false, info
	close(o.done)
	if hash != spec.Unread { // else the last hash stays
		o.hash, o.at = hash, at
	}
	if o.again {
		o.again = false
		h.begin(path, o)
	}
	h.mu.Unlock()
	if news {
		h.changed()
	}
}

// contents hashes a file, unless its metadata is as it was when it had hash. A missing file
// has a hash as well; one that cannot be read has none.
func contents(path string, before os.FileInfo, hash string) (os.FileInfo, string) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, hashText("missing")
	case err != nil:
		return nil, spec.Unread
	case !info.Mode().IsRegular(): // opening it may block
		return info, hashText("not a file: " + info.Mode().Type().String())
	case before != nil && hash != spec.Unread && os.SameFile(before, info) && before.Size() == info.Size() &&
		before.ModTime().Equal(info.ModTime()) && time.Since(info.ModTime()) > mtimeResolution:
		return info, hash
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, spec.Unread
	}
	defer f.Close()
	sum := sha256.New()
	fmt.Fprintf(sum, "%d\n", info.Size())
	if info.Size() <= maxContent {
		_, err = io.Copy(sum, io.LimitReader(f, maxContent))
	} else {
		_, err = io.CopyN(sum, f, maxContent/2)
		if err == nil {
			_, err = io.Copy(sum, io.NewSectionReader(f, info.Size()-maxContent/2, maxContent/2))
		}
	}
	if err != nil {
		return nil, spec.Unread
	}
	return info, hex.EncodeToString(sum.Sum(nil)[:8])
}

// hashText returns the hash of a text that is not the content of a file.
func hashText(what string) string {
	sum := sha256.Sum256([]byte(what))
	return hex.EncodeToString(sum[:8])
}
