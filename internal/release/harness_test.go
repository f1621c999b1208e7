package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/git/gittest"
)

func TestMain(m *testing.M) { gittest.Main(m, crashAt, crash) }

// repository is that of a person, whose branch main is checked out in dir.
type repository struct {
	*testing.T
	dir   string
	repo  *Repo
	first string // the first commit
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func newRepository(t *testing.T, args ...string) *repository {
	t.Helper()
	p := &repository{T: t, dir: filepath.Join(t.TempDir(), "repo")}
	p.at(filepath.Dir(p.dir), append([]string{"init", "-q", "-b", "main", "--template="}, append(args, p.dir)...)...)
	p.at(p.dir, "config", "user.name", "Person")
	p.at(p.dir, "config", "user.email", "person@example.invalid")
	p.write("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	p.write("dir/b", "b\n")
	p.write("gone", "gone\n")
	p.write("d/1", "1\n")
	p.write("d/2", "2\n")
	p.write(".gitignore", "ignored*\n")
	p.commitAll("first")
	p.first = p.git("rev-parse", "HEAD")
	p.open(p.dir)
	return p
}

// newBare returns a bare clone of a repository.
func newBare(t *testing.T) *repository {
	t.Helper()
	p := newRepository(t)
	bare := filepath.Join(t.TempDir(), "bare.git")
	p.git("clone", "-q", "--bare", ".", bare)
	p.dir = bare
	p.open(bare)
	return p
}

func (p *repository) open(dir string) {
	p.Helper()
	r, err := Open(p.Context(), dir)
	if err != nil {
		p.Fatal(err)
	}
	p.repo = r
}

// at runs git in a directory and returns its output without the last newline.
func (p *repository) at(dir string, args ...string) string {
	p.Helper()
	return gittest.Run(p, dir, args...)
}

func (p *repository) git(args ...string) string {
	p.Helper()
	return p.at(p.dir, args...)
}

func (p *repository) write(name, text string) {
	p.Helper()
	gittest.Write(p, filepath.Join(p.dir, name), text)
}

func (p *repository) read(name string) string {
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		return "none"
	}
	return string(text)
}

func (p *repository) commitAll(subject string) string {
	p.Helper()
	p.git("add", "-A")
	p.git("commit", "-q", "--no-verify", "--no-gpg-sign", "-m", subject)
	return p.git("rev-parse", "HEAD")
}

// tree makes a tree of a commit and files, each "path=content", or "-path" to delete one.
func (p *repository) tree(base string, files ...string) string {
	p.Helper()
	index := filepath.Join(p.TempDir(), "index")
	run := func(stdin string, args ...string) string {
		p.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = p.dir
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+index)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			p.Fatalf("git %q: %v: %s", args, err, out)
		}
		return strings.TrimSuffix(string(out), "\n")
	}
	run("", "read-tree", base)
	for _, f := range files {
		if name, ok := strings.CutPrefix(f, "-"); ok {
			run("0 0000000000000000000000000000000000000000\t"+name+"\x00", "update-index", "-z", "--index-info")
			continue
		}
		name, text, _ := strings.Cut(f, "=")
		id := run(text, "hash-object", "-w", "--stdin")
		run("100644 "+id+"\t"+name+"\x00", "update-index", "-z", "--index-info")
	}
	return run("", "write-tree")
}

// attempt makes the commit of an attempt that changes files since a commit.
func (p *repository) attempt(task string, base string, files ...string) string {
	p.Helper()
	id, err := p.repo.Commit(p.Context(), Commit{
		Base: base, Tree: p.tree(base, files...), Subject: "Change " + task, Task: task, Attempt: 1, At: noon,
	})
	if err != nil {
		p.Fatal(err)
	}
	return id
}

// merge merges a commit into main.
func (p *repository) merge(commit string) Merged {
	p.Helper()
	m, err := p.repo.Merge(p.Context(), Merge{Into: "main", Commit: commit})
	if err != nil {
		p.Fatal(err)
	}
	return m
}

// refuse merges a commit into main and returns the error; nothing changes.
func (p *repository) refuse(commit string) error {
	p.Helper()
	before := p.state()
	_, err := p.repo.Merge(p.Context(), Merge{Into: "main", Commit: commit})
	if err == nil {
		p.Fatal("it was merged")
	}
	if after := p.state(); after != before {
		p.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	p.noLocks()
	return err
}

// state describes the references, the index, and the files of a worktree.
func (p *repository) state() string {
	p.Helper()
	all := p.git("show-ref", "--head") + "\n"
	if p.git("rev-parse", "--is-bare-repository") == "true" {
		return all
	}
	all += p.git("ls-files", "--stage") + "\n"
	all += p.git("status", "--porcelain", "--ignored", "--untracked-files=all") + "\n"
	err := filepath.WalkDir(p.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == ".git" && d.IsDir() {
			return filepath.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			all += path + "=" + string(text) + "\n"
			return err
		}
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	return all
}

func (p *repository) status() string {
	p.Helper()
	return p.git("status", "--porcelain", "--untracked-files=all")
}

// noLocks fails if a lock or a copy of an index is left.
func (p *repository) noLocks() {
	p.Helper()
	err := filepath.WalkDir(p.repo.common, func(path string, d os.DirEntry, err error) error {
		name := d.Name()
		ours := name == flockName || filepath.Base(filepath.Dir(path)) == "coppice-release"
		if strings.HasSuffix(name, ".lock") && !ours || name == beforeName || name == draftName {
			p.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
}

func (p *repository) same(what, got, want string) {
	p.Helper()
	if got != want {
		p.Errorf("%s: %q, expected %q", what, got, want)
	}
}

func command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	return cmd
}
