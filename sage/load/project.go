package load

import (
	"errors"
	"time"

	"github.com/coppice-dev/coppice/supervisor"
)

// Projects finds the projects that programs belong to. Its values are plain, so that programs do
// not depend on the format of project files.
type Projects interface {
	// Settings returns the settings of the project in a directory or in the nearest one above it.
	// The error wraps fs.ErrNotExist if there is no project. If the file has errors, it has a
	// Faults method that lists them.
	Settings(dir string) (*Settings, error)
	// Fleet returns the agents that a program can have as children, if any. A program is identified
	// by the directory of its project, or by its first file if it has no project.
	Fleet(program string) (Fleet, error)
}

// Settings are the settings of a project.
type Settings struct {
	File        string // their source, in the topmost directory of the project
	Entry       string // absolute path of the program's first file
	Database    string // the file of persistent beliefs; "" keeps them in memory
	Limit       supervisor.Limit
	Trace       bool
	Divine      Divine
	TestTimeout time.Duration
	Notices     []string // about settings without effect
}

// Divine is the command that answers divine.
type Divine struct {
	Command []string // nil if the environment names a server instead
	Format  string   // of the answer: see llm.Command
	Timeout time.Duration
}

// Fleet is a file of agents that are not Sage programs.
type Fleet struct {
	File   string // "" if there is none
	Agents []string
}

// Fault is an error in a file of a project. Line and Column count from 1, and are 0 for the whole
// file.
type Fault struct {
	File          string
	Line, Column  int
	Message, Hint string
}

// Faults returns the errors in project files that err contains.
func Faults(err error) []Fault {
	if faulty, ok := errors.AsType[interface {
		error
		Faults() []Fault
	}](err); ok {
		return faulty.Faults()
	}
	return nil
}
