package fakeagent

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// linked returns an error unless a directory is in a linked git worktree. In any other one it may be on the branch at
// which a person works.
func linked(dir string) error {
	dirs, err := git(dir, "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir")
	if err != nil {
		return err
	}
	if own, shared, _ := strings.Cut(dirs, "\n"); own == shared {
		return errors.New("this is not a linked git worktree; see git worktree add")
	}
	return nil
}

// commit makes an empty commit in a directory that is in a linked git worktree.
func commit(dir string, cli agentcli.CLI) error {
	if err := linked(dir); err != nil {
		return err
	}
	_, err := git(dir, "-c", "user.name=fake "+Program(cli), "-c", "user.email=fake@coppice.invalid",
		"-c", "commit.gpgsign=false", "commit", "--quiet", "--allow-empty", "--no-verify",
		"--message", "An empty commit of a fake of "+Program(cli)+" in "+filepath.Base(dir))
	return err
}

// git runs git in a directory, and returns its output.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git: %w: %.200s", err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
