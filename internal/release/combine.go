package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	gitcmd "github.com/coppice-dev/coppice/internal/git"
)

// Bounds of the attributes of a branch that are respected in a merge.
const (
	maxAttributeFiles = 1000
	maxAttributeFile  = 1 << 20 // bytes
)

// combine returns the commit that a branch at tip moves to for a commit: the commit itself if tip is one of
// its ancestors, and a merge commit otherwise. A merge commit keeps the commit that was checked, with
// its id and its trailers, so whether it is merged can be decided exactly. The error is a
// *ConflictError if the changes do not go together.
func (r *Repo) combine(ctx context.Context, tip, commit string) (string, error) {
	if ok, err := r.contains(ctx, commit, tip); err != nil || ok {
		return commit, err
	}
	tree, err := r.mergeTrees(ctx, tip, commit)
	if err != nil {
		return "", err
	}
	title, err := r.git().Line(ctx, "log", "-1", "--no-color", "--no-patch", "--format=%s", "--end-of-options", commit,
		"--")
	if err != nil {
		return "", err
	}
	message := subject(fmt.Sprintf("Merge %.12s: %s", commit, subject(title))) + "\n"
	return r.commitTree(ctx, tree, message, time.Now(), tip, commit)
}

// mergeTrees merges two commits in a git directory of its own, which has no configuration of others. So no
// merge driver runs, and the result does not depend on who merges. What the attributes of the branch say
// of its files is respected, such as -merge.
func (r *Repo) mergeTrees(ctx context.Context, tip, commit string) (tree string, err error) {
	dir, err := os.MkdirTemp("", "coppice-release-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	g, err := r.isolated(dir)
	if err != nil {
		return "", err
	}
	if err := writeAttributes(ctx, g, tip); err != nil {
		return "", fmt.Errorf("reading the attributes of the branch: %w", err)
	}
	out, err := g.Run(ctx, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", tip, commit)
	fields := gitcmd.Split(out)
	switch code := gitcmd.ExitCode(err); {
	case err == nil && len(fields) == 1:
		return fields[0], nil
	case code == 1 && len(fields) > 1:
		files, more := few(fields[1:])
		return "", &ConflictError{files, more}
	case code == 129:
		return "", fmt.Errorf("%w: %w", ErrOldGit, err)
	case err == nil:
		err = fmt.Errorf("git merge-tree: unexpected output %.200q", out)
	}
	return "", err
}

const isolatedConfig = "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectFormat = %s\n"

// isolated makes a git directory with a work tree below dir on the objects of the repository.
func (r *Repo) isolated(dir string) (gitcmd.Runner, error) {
	for name, text := range map[string]string{
		"git/HEAD":       "ref: refs/heads/none\n",
		"git/config":     fmt.Sprintf(isolatedConfig, r.format),
		"git/refs/.keep": "",
		"work/.keep":     "",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return gitcmd.Runner{}, err
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return gitcmd.Runner{}, err
		}
	}
	env := []string{
		"GIT_OBJECT_DIRECTORY=" + r.objects, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1", "XDG_CONFIG_HOME=" + dir, "HOME=" + dir,
	}
	if shallow := filepath.Join(r.common, "shallow"); exists(shallow) {
		env = append(env, "GIT_SHALLOW_FILE="+shallow)
	}
	g := runner(filepath.Join(dir, "git"))
	g.Work, g.Env = filepath.Join(dir, "work"), append(g.Env, env...)
	return g, nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// writeAttributes writes the .gitattributes files of a commit to the work tree of g.
func writeAttributes(ctx context.Context, g gitcmd.Runner, commit string) error {
	root, err := os.OpenRoot(g.Work)
	if err != nil {
		return err
	}
	defer root.Close()
	files, err := g.Names(ctx, "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return err
	}
	n := 0
	for _, f := range files {
		entry, name, _ := strings.Cut(f, "\t")
		fields := strings.Fields(entry) // mode, type, id
		if len(fields) != 3 || path.Base(name) != ".gitattributes" || !strings.HasPrefix(fields[0], "100") {
			continue
		}
		if n++; n > maxAttributeFiles {
			return fmt.Errorf("more than %d files", maxAttributeFiles)
		}
		var text []byte
		err := g.Read(ctx, func(r io.Reader) (err error) {
			text, err = io.ReadAll(io.LimitReader(r, maxAttributeFile+1))
			return err
		}, "cat-file", "blob", fields[2])
		if err == nil && len(text) > maxAttributeFile {
			err = fmt.Errorf("%q is larger than %d bytes", name, maxAttributeFile)
		}
		if err == nil {
			err = root.MkdirAll(path.Dir(name), 0o700)
		}
		if err == nil {
			err = root.WriteFile(name, text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
