package spec

import (
	"fmt"
	"os"
)

// Runtime is the kind of runtime of an agent. Its names are those of runtime.Runtime.Kind.
type Runtime uint8

const (
	Proc Runtime = iota // a process with a shim
	Tmux                // a session of the project's own tmux server
)

func (r Runtime) String() string { return EnumName(r, "proc", "tmux") }

// Program is a program with agents that run together in one process of its own.
type Program struct {
	// Key is the same for all agents of that process. It names the program, for people, and its
	// version.
	Key string
	// Bundle has all that the process needs to run the agents.
	Bundle []byte `json:"-"`
	// Trace is a file that the process appends to; it may be nil.
	Trace *os.File `json:"-"`
}

// EnumName returns the name of a value of an enumeration, or invalid(N).
func EnumName[E ~uint8](e E, names ...string) string {
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("invalid(%d)", uint8(e))
}

// Limits bound what an agent may use. Zero is no limit.
type Limits struct {
	Memory    int64   // bytes, from MinMemory
	CPU       float64 // cores, from MinCPU to MaxCPU
	OpenFiles uint64  // of each process
	Processes uint64
}

// Bounds of Limits. Not even an empty program runs in less memory, and the kernel cannot
// assign a smaller part of a core.
const (
	MinMemory = 1 << 20
	MinCPU    = 0.01
	MaxCPU    = 4096
	MaxCount  = 1 << 30 // of open files and processes
)

// checkUser checks settings that are incompatible with a user. The loader of the file checks
// whether the user exists and whether the daemon may switch to it.
func (c checker) checkUser(g *Agent) {
	switch {
	case g.User == "" && g.Group != "":
		c.problem([]string{"group"}, "add user", "group without user, expected both or none")
	case g.User != "" && g.Runtime == Tmux:
		c.problem([]string{"user"}, `remove one of the two; terminal = true gives a terminal without tmux`,
			"user in tmux, expected the runtime proc: the tmux server of a project belongs to the daemon's user")
	case g.User != "" && g.Stdin != "": // the user could have replaced it by a link
		c.problem([]string{"stdin"}, "let the command read the file: exec < FILE",
			"stdin with user, expected none: the daemon's user would open the file")
	case g.User != "" && len(g.EnvFiles) > 0:
		c.problem([]string{"env_file"}, "let the command read the file: set -a; . FILE",
			"env_file with user, expected none: the daemon's user would read the file")
	case g.User != "" && g.Aide != nil:
		c.problem([]string{"user"}, "remove it",
			"user with an Aidefile, expected none: its runs belong to the daemon's user")
	}
}

// checkPaths checks where an agent may write. The loader of the file checks whether the paths exist
// and whether the kernel can enforce them.
func (c checker) checkPaths(g *Agent) {
	readWrite, readOnly := g.ReadWritePaths, g.ReadOnlyPaths
	if g.Pipeline != nil { // they limit its stages
		readWrite, readOnly = g.Pipeline.Writable, g.Pipeline.ReadOnly
	}
	c.checkFiles("read_write_paths", readWrite)
	c.checkFiles("read_only_paths", readOnly)
	switch {
	case g.Pipeline != nil && readWrite == nil && readOnly != nil:
		c.problem([]string{"read_only_paths"}, "add read_write_paths; [] adds nothing to what stages may write",
			"read_only_paths without read_write_paths, expected both: then a kernel that cannot enforce them is "+
				"an error")
	case readWrite == nil && readOnly != nil:
		c.problem([]string{"read_only_paths"}, `add read_write_paths; ["/"] is everything`,
			"read_only_paths without read_write_paths, expected both: they are exceptions from what is writable")
	case g.ReadWritePaths != nil && g.Runtime == Tmux: // which the agent can reach
		c.problem([]string{"read_write_paths"}, "remove one of the two; terminal = true gives a terminal without tmux",
			"read_write_paths in tmux, expected the runtime proc: a tmux server runs commands without these limits")
	case g.ReadWritePaths != nil && g.Aide != nil:
		c.problem([]string{"read_write_paths"}, "remove it",
			"read_write_paths with an Aidefile, expected none: its runs keep their state next to it")
	}
}

func (c checker) checkLimits(l Limits) {
	if l.Memory != 0 && l.Memory < MinMemory {
		c.problem([]string{"limits", "memory"}, `write "512MiB" for 512 mebibytes`,
			"memory is %d bytes, expected at least %d (1 MiB)", l.Memory, MinMemory)
	}
	if l.CPU != 0 && !(l.CPU >= MinCPU && l.CPU <= MaxCPU) { // also rejects NaN
		c.problem([]string{"limits", "cpu"}, "", "cpu is %v, expected a number of cores from %v to %v", l.CPU,
			MinCPU, MaxCPU)
	}
	for _, n := range []struct {
		field string
		value uint64
	}{{"open_files", l.OpenFiles}, {"processes", l.Processes}} {
		if n.value > MaxCount {
			c.problem([]string{"limits", n.field}, "", "%s is %d, expected at most %d", n.field, n.value, MaxCount)
		}
	}
}
