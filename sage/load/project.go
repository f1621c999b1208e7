package load

import (
	"errors"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// Projects knows the projects that programs belong to. Its values are plain:
// what the files of a project look like is none of a program's business.
type Projects interface {
	// Settings returns the settings of the project in a directory or in the
	// nearest one above it. The error wraps fs.ErrNotExist if there is no project;
	// if the file has errors, it has a Faults method that lists them.
	Settings(dir string) (*Settings, error)
	// Fleet returns the agents that the program of a project, named by its
	// directory, or a program without one, named by its first file, can have as
	// children. There may be none.
	Fleet(program string) (Fleet, error)
}

// Settings are those of a project.
type Settings struct {
	File        string // from which they were read; it is in the topmost directory of the project
	Entry       string // the first file of the program; absolute
	Database    string // the file of persistent beliefs; "" keeps them in memory
	Limit       supervisor.Limit
	Trace       bool
	Divine      Divine
	TestTimeout time.Duration
	Notices     []string // what the file says in vain
}

// Divine is the command that answers divine.
type Divine struct {
	Command []string // nil if the environment names a server instead
	Format  string   // of its answer: an llm.Format
	Timeout time.Duration
}

// Fleet is a file of agents that are no programs.
type Fleet struct {
	File   string // "" if there is none
	Agents []string
}

// Fault is an error in a file of a project. Line and Column count from 1; they
// are 0 for the whole file.
type Fault struct {
	File          string
	Line, Column  int
	Message, Hint string
}

// Faults returns the errors of the files of a project that err is about.
func Faults(err error) []Fault {
	if faulty, ok := errors.AsType[interface {
		error
		Faults() []Fault
	}](err); ok {
		return faulty.Faults()
	}
	return nil
}
