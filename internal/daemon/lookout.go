package daemon

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

// lookout knows what is in files, without anybody ever waiting for one: it
// looks beside everything else, at some at a time, and reads only those that
// look different from the last time.
type lookout struct {
	news   func() // something has changed
	spawn  func(func(context.Context))
	turns  chan struct{}
	mu     sync.Mutex
	byPath map[string]*outlookOf
}

// outlookOf is what is known of a file.
type outlookOf struct {
	looking bool
	done    chan struct{} // closed when that look is over
	again   bool          // look once more after that
	env     bool          // it has environment variables
	info    os.FileInfo   // as it was when it was read; nil if it was not there
	hash    string
	at      time.Time // when the look began that found the hash
}

const (
	lookTogether = 4
	// lookTime is how long a look may keep others from theirs. It goes on after
	// that, for as long as its file system hangs.
	lookTime = 5 * time.Second
	// maxContent is how much of a file is read: of larger ones the beginning
	// and the end, and the size counts.
	maxContent = 1 << 20
	// settled is how long a file must not have changed for its time to be
	// trusted: two changes may have the same time.
	settled = 2 * time.Second
)

func newLookout(spawn func(func(context.Context)), news func()) *lookout {
	return &lookout{news: news, spawn: spawn, turns: make(chan struct{}, lookTogether),
		byPath: make(map[string]*outlookOf)}
}

// watch looks at files now, and from now on whenever it is asked to look around.
func (l *lookout) watch(files map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for path, env := range files {
		o := l.byPath[path]
		if o == nil {
			o = new(outlookOf)
			l.byPath[path] = o
		}
		o.env = env
		if o.looking {
			o.again = true
		}
		l.look(path, o)
	}
}

// around looks at all files that are wanted, and forgets the others.
func (l *lookout) around(wanted map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for path, env := range wanted {
		if l.byPath[path] == nil {
			l.byPath[path] = new(outlookOf)
		}
		l.byPath[path].env = env
	}
	for path, o := range l.byPath {
		if _, is := wanted[path]; !is && !o.looking {
			delete(l.byPath, path)
			continue
		}
		l.look(path, o)
	}
}

// settled looks at files and waits until what is in them now is known; not for
// longer than ctx.
func (l *lookout) settled(ctx context.Context, files map[string]bool) {
	l.watch(files)
	for path := range files {
		for {
			l.mu.Lock()
			o := l.byPath[path]
			looking := o != nil && o.looking
			var done chan struct{}
			if looking {
				done = o.done
			}
			l.mu.Unlock()
			if !looking {
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

// hash is what a file is known to contain, or spec.Unread.
func (l *lookout) hash(path string) string {
	hash, _ := l.known(path)
	return hash
}

// known is hash, and when the file was looked at.
func (l *lookout) known(path string) (string, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.byPath[path]; o != nil {
		return o.hash, o.at
	}
	return spec.Unread, time.Time{}
}

// look begins to look at a file, unless somebody does. Needs mu.
func (l *lookout) look(path string, o *outlookOf) {
	if o.looking {
		return
	}
	o.looking, o.done = true, make(chan struct{})
	before, hash, env := o.info, o.hash, o.env
	l.spawn(func(ctx context.Context) {
		select {
		case l.turns <- struct{}{}:
		case <-ctx.Done():
			return
		}
		done := make(chan struct{})
		go func() { // which may hang for ever; it is one for each file
			defer close(done)
			at := time.Now()
			info, now := contents(path, before, hash)
			if env && now != hash {
				if _, err := envfile.Read(path); err != nil {
					now = hash // no agent is started again to fail with it
				}
			}
			l.seen(path, o, info, now, at)
		}()
		late := time.NewTimer(lookTime)
		defer late.Stop()
		select {
		case <-done:
		case <-late.C:
		case <-ctx.Done():
		}
		<-l.turns
	})
}

// seen notes what a look has found.
func (l *lookout) seen(path string, o *outlookOf, info os.FileInfo, hash string, at time.Time) {
	l.mu.Lock()
	news := hash != o.hash || o.again
	o.looking, o.info = false, info
	close(o.done)
	if hash != spec.Unread { // else what was known is not doubted
		o.hash, o.at = hash, at
	}
	if o.again {
		o.again = false
		l.look(path, o)
	}
	l.mu.Unlock()
	if news {
		l.news()
	}
}

// contents reads a file, unless it looks as it did when it had hash. A file that
// is not there has a hash as well, one that cannot be read has none.
func contents(path string, before os.FileInfo, hash string) (os.FileInfo, string) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, short("missing")
	case err != nil:
		return nil, spec.Unread
	case !info.Mode().IsRegular(): // to open it may wait for somebody
		return info, short("not a file: " + info.Mode().Type().String())
	case before != nil && hash != spec.Unread && os.SameFile(before, info) && before.Size() == info.Size() &&
		before.ModTime().Equal(info.ModTime()) && time.Since(info.ModTime()) > settled:
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

// short is a hash of what is no content.
func short(what string) string {
	sum := sha256.Sum256([]byte(what))
	return hex.EncodeToString(sum[:8])
}
