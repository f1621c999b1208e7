package change

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/exectest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// repo is a real repository with a first commit.
type repo struct {
	*testing.T
	dir, base string
}

// newRepo returns a repository with files, each "path", or "path=content".
func newRepo(t *testing.T, files ...string) *repo {
	t.Helper()
	exectest.Need(t, "git")
	t.Parallel()
	r := &repo{T: t, dir: t.TempDir()}
	r.git("init", "--quiet", "--template=")
	for _, f := range files {
		name, content, ok := strings.Cut(f, "=")
		if !ok {
			content = "content of " + name + "\n"
		}
		r.write(name, content)
	}
	r.git("add", "--all", "--force")
	r.commit("first")
	r.base = strings.TrimSpace(r.git("rev-parse", "HEAD"))
	return r
}

// environ is the environment of processes of tests.
func (r *repo) environ() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir + "/.git/none", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t.invalid", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t.invalid"}
}

func (r *repo) run(name string, args ...string) string {
	r.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = r.dir, r.environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func (r *repo) git(args ...string) string {
	r.Helper()
	return r.run("git", append([]string{"-c", "protocol.file.allow=always"}, args...)...)
}

// sh runs a script in the work tree, as an agent would.
func (r *repo) sh(script string) {
	r.Helper()
	r.run("sh", "-euc", script)
}

func (r *repo) commit(message string) {
	r.Helper()
	r.git("commit", "--quiet", "--allow-empty", "--no-verify", "-m", message)
}

func (r *repo) write(name, content string) {
	r.Helper()
	path := filepath.Join(r.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r *repo) read() *Change {
	r.Helper()
	c, err := Read(r.Context(), r.dir, r.base)
	if err != nil {
		r.Fatal(err)
	}
	return c
}

// summary describes each changed file in a line.
func summary(c *Change) (lines []string) {
	for _, f := range c.Files {
		line := string(f.Status) + " "
		if f.OldPath != "" {
			line += Quote(f.OldPath) + " "
		}
		lines = append(lines, line+Quote(f.Path))
	}
	return lines
}

// wantFiles compares the changed files.
func (r *repo) wantFiles(want ...string) *Change {
	r.Helper()
	c := r.read()
	if got := strings.Join(summary(c), "\n"); got != strings.Join(want, "\n") {
		r.Errorf("the change is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	return c
}

func lines(n int) string { return strings.Repeat("a line of text\n", n) }
