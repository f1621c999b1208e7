package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	gitcmd "github.com/coppice-dev/coppice/internal/git"
)

// source is a work tree and the object database of its repository.
type source struct {
	dir     string // the root of the work tree
	objects string // the directory of the object database
	format  string // sha1 or sha256
}

// git runs git commands in one environment.
type git struct {
	dir string
	env []string
}

func (g git) command(stdin io.Reader, args ...string) gitcmd.Command {
	return gitcmd.Command{Args: args, Dir: g.dir, Env: g.env, Stdin: stdin}
}

// output runs a command and returns its standard output.
func (g git) output(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	return g.command(stdin, args...).Output(ctx)
}

// run runs a command and passes its standard output to read. The command is killed if read fails.
func (g git) run(ctx context.Context, stdin io.Reader, read func(io.Reader) error, args ...string) error {
	return g.command(stdin, args...).Read(ctx, read)
}

// theirs returns git in the repository of a work tree, with its configuration. It is used only for
// commands that run no hooks, filters or other programs of the configuration.
func theirs(dir string) git { return git{dir, gitcmd.Environ()} }

// locate finds the root of a work tree and its object database, and the id of the commit base.
func locate(ctx context.Context, dir, base string) (s source, commit string, err error) {
	g := theirs(dir)
	out, err := g.output(ctx, nil, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-path", "objects",
		"--show-object-format")
	if err != nil {
		return s, "", err
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != 3 {
		return s, "", fmt.Errorf("git rev-parse: %d lines instead of 3; the path of the repository may have a newline",
			len(lines))
	}
	s = source{lines[0], lines[1], lines[2]}
	out, err = g.output(ctx, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", base+"^{commit}")
	if err != nil {
		return s, "", fmt.Errorf("%s is no commit: %w", Quote(base), err)
	}
	return s, strings.TrimSpace(out), nil
}

// private is a git directory of our own on the objects and the work tree of another. It has no
// configuration, hooks, references, ignore rules, index or attributes of theirs.
type private struct {
	git
	dir string
}

const privateConfig = `[core]
	repositoryformatversion = 1
	bare = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	precomposeUnicode = false
	autocrlf = false
	fsmonitor = false
	protectHFS = false
	protectNTFS = false
	hooksPath = /dev/null
	attributesFile = /dev/null
	excludesFile = /dev/null
[extensions]
	objectFormat = %s
[gc]
	auto = 0
[diff]
	renameLimit = 1000
`

// privateAttributes come before those in the work tree: they leave everything unspecified, so that
// nothing is converted, filtered or taken for binary.
const privateAttributes = "* !text !eol !crlf !ident !filter !working-tree-encoding diff !merge !whitespace\n"

// open writes the git directory. Close removes it.
func (s source) open() (*private, error) {
	dir, err := os.MkdirTemp("", "coppice-change-")
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		"HEAD": "ref: refs/heads/none\n", "config": fmt.Sprintf(privateConfig, s.format),
		"info/attributes": privateAttributes, "refs/.keep": "",
	} {
		path := filepath.Join(dir, name)
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return &private{git{s.dir, []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "TMPDIR=" + os.TempDir(), "LC_ALL=C",
		"GIT_DIR=" + dir, "GIT_WORK_TREE=" + s.dir, "GIT_OBJECT_DIRECTORY=" + s.objects,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_LITERAL_PATHSPECS=1", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1",
	}}, dir}, nil
}

// withIndex returns git with an index of its own, which is empty at first.
func (p *private) withIndex(name string) git {
	return git{p.git.dir, append(p.env[:len(p.env):len(p.env)], "GIT_INDEX_FILE="+filepath.Join(p.dir, name))}
}

// Close removes the git directory.
func (p *private) Close() error { return os.RemoveAll(p.dir) }
