package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// Commands and daemons run without the race detector, which triples the cost of each start, except
// in tests that call detectRaces.
var (
	// racePath is the path of a coppice with the race detector, if the tests have it.
	racePath string
	// raceTests has the names of the tests that use it.
	raceTests sync.Map
)

// underRaceDetector reports whether this process has the race detector.
func underRaceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// installPlain builds coppice without the race detector into dir, and prepends dir to PATH.
func installPlain(dir string) (err error) {
	if racePath, err = exec.LookPath("coppice"); err != nil {
		return err
	}
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", dir, root+"/cmd/coppice").CombinedOutput(); err != nil {
		return fmt.Errorf("building coppice: %w: %s", err, out)
	}
	return os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// detectRaces enables the race detector in the daemon of a test, its shims and its commands.
func detectRaces(t *testing.T) { raceTests.Store(t.Name(), nil) }

// command returns a command that runs coppice for a test.
func command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.Command("coppice", args...)
	name, _, _ := strings.Cut(t.Name(), "/")
	if _, ok := raceTests.Load(name); ok && racePath != "" {
		cmd.Path, cmd.Err = racePath, nil
	}
	return cmd
}

// races returns the reports of all race detectors.
func races(dir string) (text string) {
	reports, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, report := range reports {
		data, _ := os.ReadFile(report)
		text += string(data)
	}
	return text
}
