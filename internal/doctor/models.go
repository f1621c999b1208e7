package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/spec"
)

// versionTime bounds the start of a program that prints its version: those on Node take seconds.
const versionTime = 30 * time.Second

// models checks the command lines of language models that agents run, and Node if one of them needs it.
func (d *doctor) models(ctx context.Context) {
	programs := map[string]agentcli.CLI{} // by path
	for _, a := range d.agents {
		argv, cli := a.CallCommand(), a.CommandLine()
		if len(agentcli.Measured(cli)) == 0 || agentcli.Detect(argv[:1]) != cli { // npx and the like find it themselves
			continue
		}
		path, err := proc.LookPath(argv[0], a.Dir, environ(a))
		if err != nil {
			d.note(string(cli), LevelProblem, "", "%v", err)
			continue
		}
		programs[path] = cli
	}
	node := false
	for _, path := range slices.Sorted(maps.Keys(programs)) {
		d.model(ctx, programs[path], path)
		node = node || runsOnNode(path)
	}
	if node {
		d.node(ctx)
	}
}

// environ returns the environment in which the program of an agent is looked up.
func environ(a *spec.Agent) []string {
	path := cmp.Or(a.Env["PATH"], os.Getenv("PATH"))
	return []string{"PATH=" + path}
}

// model checks the version of a command line.
func (d *doctor) model(ctx context.Context, cli agentcli.CLI, path string) {
	text, err := versionOf(ctx, path)
	version := agentcli.VersionIn(text)
	measured := agentcli.Measured(cli)
	newest := measured[len(measured)-1]
	switch {
	case err != nil:
		d.note(string(cli), LevelProblem, "", "%s --version: %v", path, err)
	case version == "":
		d.note(string(cli), LevelWarning, "", "%s does not say its version: %.80q", path, text)
	case agentcli.Age(cli, version) > 0:
		d.note(string(cli), LevelWarning, "record a run, and check it with: coppice classify",
			"version %s of %s is newer than %s, the newest with which Coppice was measured", version, path, newest)
	case agentcli.Age(cli, version) < 0:
		d.note(string(cli), LevelWarning, "update it, or check a recorded run with: coppice classify",
			"version %s of %s is older than %s, the oldest with which Coppice was measured", version, path, measured[0])
	default:
		d.note(string(cli), LevelOK, "", "version %s, %s", version, path)
	}
}

// nodeFor is the version of Node for which the newest claude is made; with an older one, npm installs an old claude
// without a word.
const nodeFor = 22

func (d *doctor) node(ctx context.Context) {
	text, err := versionOf(ctx, "node")
	version := agentcli.VersionIn(text)
	major, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(major) // 0 is old enough
	switch {
	case err != nil:
		d.note("node", LevelWarning, "", "node --version: %v", err)
	case n < nodeFor:
		d.note("node", LevelWarning, fmt.Sprintf("install Node %d or later", nodeFor),
			"version %s: npm installs old versions of some command lines for it", version)
	default:
		d.note("node", LevelOK, "", "version %s", version)
	}
}

// runsOnNode reports whether a program is a script for Node.
func runsOnNode(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 200)
	n, _ := f.Read(head)
	first, _, _ := strings.Cut(string(head[:n]), "\n")
	return strings.HasPrefix(first, "#!") && strings.Contains(first, "node")
}

// versionOf returns what a program prints with --version.
func versionOf(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, versionTime, fmt.Errorf("it has not ended within %v", versionTime))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, plaintext.OneLine(string(e.Stderr), 200))
	}
	return plaintext.OneLine(string(out), 200), err
}
