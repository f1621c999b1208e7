package fleet

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/shim/server"
	"github.com/coppice-dev/coppice/tools/chaos/internal/process"
	"github.com/coppice-dev/coppice/tools/chaos/internal/trial"
)

// programName is the name of the topmost supervisor of the program, and the directory of its files.
const programName = "Count"

//go:embed count.sg
var counterText string

// counters returns the names of the agents of the program: their paths below the root, and those of their journals.
func counters(o trial.Options) []string {
	names := make([]string, o.Program)
	for i := range names {
		names[i] = fmt.Sprintf("%s/p%d", programName, i)
	}
	return names
}

// writeProgram writes the files of the program.
func writeProgram(o trial.Options) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nsupervisor %s {\n    strategy: OneForOne\n    children {\n", counterText, programName)
	for _, path := range counters(o) {
		name := filepath.Base(path)
		fmt.Fprintf(&b, "        Counter as %s { restart: Permanent, name: %q, pause: %d }\n", name, name,
			5*o.Program) // milliseconds: 200 steps a second in all
	}
	fmt.Fprintf(&b, "    }\n}\n\nrun %s;\n", programName)
	dir := filepath.Join(o.Dir, programName)
	return errors.Join(os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "count.sg"), []byte(b.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "grove.toml"), []byte("[project]\nname = \"count\"\nentry = \"count.sg\"\n\n"+
			"[supervision]\nmax_restarts = \"unlimited\"\n"), 0o600))
}

// isProgram reports whether the process of a command line runs the agents of a program.
func isProgram(argv []string) bool {
	return len(argv) > 4 && argv[1] == "shim" && slices.Contains(argv[4:], server.ProgramArg)
}

// programsIn returns the processes of programs of a project.
func programsIn(dir string) []int {
	return slices.DeleteFunc(process.Shims(dir), func(pid int) bool { return !isProgram(process.Argv(pid)) })
}

// killProgram kills the process of the program. If it waits for the start of that, the agents may just be starting. It
// does nothing if there is none, which may be so while there is no daemon.
func (k *killer) killProgram() error {
	for range 100 {
		if running := programsIn(k.dir); len(running) > 0 {
			time.Sleep(time.Duration(k.rnd.IntN(30)) * time.Millisecond)
			return k.killShim(running)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// hitProgram records the lives that end with a process of the program, which is stopped. Those that have not written
// their journal yet are not known.
func (k *killer) hitProgram(pid int) error {
	k.programs++
	for _, name := range k.counters {
		lives, _, err := readLives(k.dir, name)
		if err != nil {
			return err
		}
		if len(lives) > 0 && lives[len(lives)-1].pid == pid {
			k.hit(name, k.keyOf(name, lives[len(lives)-1]))
		}
	}
	return nil
}

// commands waits until each agent of the program has one command that runs: those of earlier lives have ended.
func (k *killer) commands() (err error) {
	for range 200 {
		found := 0
		for pid, argv := range process.All() {
			if argv[0] == "sleep" && process.IsInside(pid, filepath.Join(k.dir, programName)) {
				found++
			}
		}
		if found == len(k.counters) {
			return nil
		}
		err = fmt.Errorf("%d agents of the program have %d commands, expected one each", len(k.counters), found)
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
