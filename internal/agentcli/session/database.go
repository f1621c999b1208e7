package session

import (
	"errors"
	"io/fs"
	"os"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/session/opencode"
)

// databaseName is the file in which opencode keeps all sessions. It is read with those next to it that begin with its
// name.
const databaseName = "opencode.db"

// database follows the sessions of a call in the database of opencode.
type database struct {
	*opencode.Reader
	streams map[bool]*agentcli.Stream // of the sessions, and of those of subagents
	unknown bool                      // not all steps or their tokens can be read
}

// openDatabase returns the database of the call, and the directory that it is in.
func (f *Follower) openDatabase() (*database, *os.Root, error) {
	root, err := f.open(agentcli.Opencode)
	if err != nil {
		return nil, nil, err
	}
	if f.database == nil {
		d := &database{Reader: opencode.New(f.call.Began), streams: map[bool]*agentcli.Stream{}}
		for _, sub := range []bool{false, true} {
			s := f.stream(&file{cli: agentcli.Opencode, place: place{sub: sub}})
			add := s.Each
			s.Each = func(e agentcli.Event) {
				d.unknown = d.unknown || e.Kind == agentcli.Unknown && e.Name == agentcli.OpencodeStep
				add(e)
			}
			d.streams[sub] = s
		}
		f.database = d
	}
	return f.database, root, nil
}

// readDatabase reads what the sessions of opencode have more, and reports whether that was anything.
func (f *Follower) readDatabase() bool {
	var ids []string
	for _, s := range f.sessions {
		if s.cli == agentcli.Opencode {
			ids = append(ids, s.id)
		}
	}
	if len(ids) == 0 {
		return false
	}
	d, root, err := f.openDatabase()
	if err != nil {
		return false
	}
	defer root.Close()
	rows, err := d.Read(regularFiles{root}, databaseName, ids)
	d.unknown = d.unknown || errors.Is(err, opencode.ErrBounds)
	for _, row := range rows {
		line, err := row.Line()
		if err != nil {
			d.unknown = true
			continue
		}
		n, _ := d.streams[row.Sub].Write(line)
		f.read += int64(n)
	}
	return len(rows) > 0
}

// begunInDatabase returns the sessions of opencode that have begun since the start of the call in its directory.
func (f *Follower) begunInDatabase() map[string]bool {
	ids := map[string]bool{}
	d, root, err := f.openDatabase()
	if err != nil {
		return ids
	}
	defer root.Close()
	begun, err := d.Begun(regularFiles{root}, databaseName, f.dirs)
	if err != nil {
		return ids
	}
	for _, id := range begun {
		ids[id] = true
	}
	return ids
}

// regularFiles are the regular files of a directory. No symbolic link leads out of it, and nothing blocks.
type regularFiles struct{ root *os.Root }

// Open implements fs.FS.
func (r regularFiles) Open(name string) (fs.File, error) {
	f, _, err := openFile(r.root, name)
	if err != nil {
		return nil, err // and not a nil file in an interface
	}
	return f, nil
}

// Stat implements fs.StatFS.
func (r regularFiles) Stat(name string) (fs.FileInfo, error) { return r.root.Stat(name) }
