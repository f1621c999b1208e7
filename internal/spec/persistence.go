package spec

import "fmt"

// Persistence is where the state of a project is kept.
type Persistence struct {
	Backend Backend
	// Path is the absolute path of the file of SQLite; the daemon's own if empty.
	Path string
}

// Backend is a kind of store.
type Backend uint8

const (
	SQLite Backend = iota // a file, which outlives everything
	Memory                // nothing that outlives the daemon
)

func (b Backend) String() string {
	switch b {
	case SQLite:
		return "sqlite"
	case Memory:
		return "memory"
	}
	return fmt.Sprintf("invalid(%d)", uint8(b))
}

// ParseBackend reads the name of a kind.
func ParseBackend(text string) (Backend, error) {
	for b := SQLite; b <= Memory; b++ {
		if b.String() == text {
			return b, nil
		}
	}
	return 0, fmt.Errorf("unknown backend %q", text)
}
