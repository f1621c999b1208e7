package change

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// A change has what is committed, staged, changed and new. The repository is left as it is.
func TestRead(t *testing.T) {
	r := newRepo(t, "committed", "staged", "unstaged", "gone", "kept", ".gitignore=*.o\n")
	r.sh(`echo 1 >>committed; git commit -qam one; echo 1 >>staged; git add staged; echo 1 >>unstaged; rm gone
		echo new >new; echo no >x.o; mkdir dir; echo yes >dir/file; echo no >dir/y.o`)
	before := r.git("status", "--porcelain=v2") + r.git("ls-files", "--stage") + r.git("for-each-ref")
	c := r.wantFiles("modified committed", "added dir/file", "deleted gone", "added new", "modified staged",
		"modified unstaged")
	if after := r.git("status", "--porcelain=v2") + r.git("ls-files", "--stage") +
		r.git("for-each-ref"); after != before {
		t.Errorf("the repository was\n%s\nand is\n%s", before, after)
	}
	if got, want := c.Totals(), (Totals{6, 5, 1}); got != want {
		t.Errorf("the totals: %+v, want %+v", got, want)
	}
	if c.Base != r.base {
		t.Errorf("the base: %s, want %s", c.Base, r.base)
	}
	r.git("add", "--all")
	if tree := strings.TrimSpace(r.git("write-tree")); tree != c.Tree {
		t.Errorf("the tree: %s, git writes %s", c.Tree, tree)
	}
	if err := c.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestReadSides(t *testing.T) {
	r := newRepo(t, "a="+lines(20), "mode", "type", "copied="+lines(5), "binary=a\x00b\n", "same")
	r.sh(`mv a b; echo more >>b; chmod +x mode; rm type; ln -s same type; cp copied copy; printf 'x\n\0y' >binary
		ln -s same link; printf 'no newline' >short`)
	c := r.wantFiles("renamed a b", "modified binary", "copied copied copy", "added link", "modified mode",
		"added short", "type changed type")
	got := map[string]string{}
	for _, f := range c.Files {
		side := func(s Side) string {
			if s.Mode == "" {
				return "-"
			}
			return fmt.Sprintf("%s %d/%d %v %q", s.Mode, s.Size, s.Lines, s.Binary, s.Target)
		}
		got[f.Path] = fmt.Sprintf("%s, %s, +%d -%d", side(f.Old), side(f.New), f.Added, f.Deleted)
	}
	want := map[string]string{
		"b":      `100644 300/20 false "", 100644 305/21 false "", +1 -0`,
		"binary": `100644 4/1 true "", 100644 4/2 true "", +2 -1`,
		"copy":   `-, 100644 75/5 false "", +5 -0`,
		"link":   `-, 120000 4/1 false "same", +1 -0`,
		"mode":   `100644 16/1 false "", 100755 16/1 false "", +0 -0`,
		"short":  `-, 100644 10/1 false "", +1 -0`,
		"type":   `100644 16/1 false "", 120000 4/1 false "same", +1 -1`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	contents, err := c.Contents(t.Context(), c.Files)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(c.Files,
		func(f File) bool { return f.Path == "b" }); contents[c.Files[i].New.ID] != lines(20)+"more\n" {
		t.Errorf("the content of b: %q", contents[c.Files[i].New.ID])
	}
}

// What an agent can set up to hide a change has no effect.
func TestReadTricks(t *testing.T) {
	for name, trick := range map[string]string{
		"assume-unchanged": `git update-index --assume-unchanged f; echo 1 >>f`,
		"skip-worktree":    `git update-index --skip-worktree f; echo 1 >>f`,
		"exclude":          `mkdir .git/info; echo f >.git/info/exclude; git rm -q --cached f; echo 1 >>f`,
		"global excludes":  `git config core.excludesFile .git/x; echo f >.git/x; git rm -q --cached f; echo 1 >>f`,
		"attributes":       `mkdir -p .git/info; echo '* -diff -text binary' >.git/info/attributes; echo 1 >>f`,
		"filter":           `git config filter.x.clean 'git cat-file blob HEAD:f'; mkdir -p .git/info; echo '* filter=x' >.git/info/attributes; echo 1 >>f; git add f`,
		"line ends":        `git config core.autocrlf input; printf 'content of f\r\n' >f`,
		"ident":            `mkdir -p .git/info; echo '* ident' >.git/info/attributes; printf 'content of f\n$Id: x$\n' >f`,
		"replaced commit": `echo 1 >>f; git commit -qam one; git replace $(git rev-list --max-parents=0 HEAD) HEAD
			git reset -q --hard HEAD; git diff --quiet HEAD`,
		"replaced blob": `old=$(git rev-parse HEAD:f); echo 1 >>f; git replace $old $(git hash-object -w f)`,
		"grafts":        `echo 1 >>f; git commit -qam one; mkdir -p .git/info; git rev-parse HEAD >.git/info/grafts`,
		"fsmonitor":     `git config core.fsmonitor 'touch ran; printf "\0"; true'; git update-index --fsmonitor >/dev/null 2>&1 || true; rm -f ran; echo 1 >>f`,
		"external diff": `git config diff.external /bin/true; git config diff.x.textconv /bin/true; mkdir -p .git/info; echo '* diff=x' >.git/info/attributes; echo 1 >>f`,
		"configuration": `git config core.worktree /tmp/none 2>/dev/null; git config --unset core.worktree; git config core.bigFileThreshold 1; git config diff.renames copies; git config diff.ignoreSubmodules all; git config core.trustctime false; git config core.checkStat minimal; touch -d 2001-01-01 f; git update-index f; sed -i s/content/Content/ f; touch -d 2001-01-01 f`,
		"sparse index":  `git sparse-checkout init --cone --sparse-index; echo 1 >>f`,
		"staged back":   `echo 1 >>f; git add f; git update-index --cacheinfo 100644,$(git rev-parse HEAD:f),f`,
		"rewritten":     `echo 1 >>f; git add f; git commit -q --amend -m other; git reflog expire --expire=all --all`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, "f", "g")
			r.sh(trick)
			c := r.wantFiles("modified f")
			if len(c.Files) == 1 && c.Files[0].Added == 0 {
				t.Errorf("no lines were added: %+v", c.Files[0])
			}
			if _, err := os.Stat(filepath.Join(r.dir, "ran")); err == nil {
				t.Error("a program of the configuration was run")
			}
		})
	}
}

func TestReadIgnored(t *testing.T) {
	r := newRepo(t, ".gitignore=*.o\n/build/\n!keep.o\n", "sub/.gitignore=*.tmp\n", "build/tracked")
	r.sh(`echo '*' >.gitignore; echo hidden >hidden; echo x >a.o; echo x >keep.o; echo x >sub/a.tmp; echo x >sub/b
		mkdir -p new build/deep; echo '*' >new/.gitignore; echo x >new/hidden; echo x >build/deep/junk; echo x >>build/tracked
		echo x >build/forced; git add -f build/forced`)
	r.wantFiles("modified .gitignore", "added build/forced", "modified build/tracked", "added hidden",
		"added keep.o", "added new/.gitignore", "added new/hidden", "added sub/b")
}

func TestReadFileMode(t *testing.T) {
	r := newRepo(t, "f")
	r.sh(`git config core.fileMode false; chmod +x f; git config core.ignoreCase true; echo x >F; git config core.symlinks false`)
	r.wantFiles("added F", "modified f")
}

func TestReadNames(t *testing.T) {
	r := newRepo(t, "a b")
	names := []string{"new\nline", "tab\t", "\x1b[31mred", "bad\xff", `back\slash`, "-rf", "--stdin", ":(glob)*", " ",
		"é", "e\u0301", "\u202eabc", "quote\""}
	for _, n := range names {
		r.write(n, "x\n")
	}
	c := r.read()
	var got []string
	for _, f := range c.Files {
		got = append(got, f.Path)
		if q := Quote(f.Path); strings.ContainsAny(q, "\n\x1b\u202e\t") || !utf8.ValidString(q) {
			t.Errorf("Quote(%q) = %s", f.Path, q)
		}
	}
	slices.Sort(names)
	if d := cmp.Diff(names, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A directory takes the place of a file, a file that of a directory.
func TestReadFileAndDirectory(t *testing.T) {
	r := newRepo(t, "file=1\n", "dir/a=2\n", "dir/b=3\n")
	r.sh(`rm -r file dir; mkdir file; echo x >file/x; echo y >dir`)
	r.wantFiles("added dir", "deleted dir/a", "deleted dir/b", "deleted file", "added file/x")
}

func TestReadHidden(t *testing.T) {
	r := newRepo(t, "f", "src/a", ".gitignore=/cache/\n")
	r.sh(`git init -q src; echo x >src/b; git init -q nested; echo x >nested/secret; mkdir .GIT; echo x >.GIT/config
		git init -q cache; mkfifo pipe; rm f; mkfifo f; mkdir deep; echo x >'deep/git~1'`)
	c := r.wantFiles("deleted f", "added nested/secret", "added src/b")
	want := []Hidden{
		{".GIT", "a name that some file systems take for .git"}, {"deep/git~1",
			"a name that some file systems take for .git"},
		{"f", "neither a file nor a directory nor a symbolic link"},
		{"nested", "a repository in the repository"}, {"pipe", "neither a file nor a directory nor a symbolic link"},
		{"src", "a repository in the repository"},
	}
	if d := cmp.Diff(want, c.Hidden); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestReadSubmodule(t *testing.T) {
	other := t.TempDir()
	r := newRepo(t, "f")
	r.sh(`git init -q ` + other + `; cd ` + other +
		`; git commit -q --allow-empty -m one; git commit -q --allow-empty -m two`)
	r.git("submodule", "--quiet", "add", other, "sub")
	r.git("submodule", "--quiet", "add", other, "away")
	r.git("commit", "--quiet", "-m", "submodules")
	r.git("submodule", "--quiet", "deinit", "--force", "away")
	r.base = strings.TrimSpace(r.git("rev-parse", "HEAD"))
	r.wantFiles()
	r.sh(`echo junk >sub/junk`)
	r.wantFiles() // nothing of it would be committed
	r.sh(`git -C sub checkout -q HEAD~1`)
	c := r.wantFiles("modified sub")
	if len(c.Files) == 1 && (c.Files[0].Old.Mode != Submodule || c.Files[0].New.Mode != Submodule) {
		t.Errorf("%+v", c.Files[0])
	}
	r.sh(`rm sub/.git; echo x >away/x; git init -q own; git -C own commit -q --allow-empty -m own; git add own 2>/dev/null`)
	r.wantFiles("deleted away", "added away/x", "added own", "deleted sub", "added sub/junk")
}

func TestReadInWorktreeAndBelow(t *testing.T) {
	r := newRepo(t, "f", "dir/g")
	tree := filepath.Join(t.TempDir(), "tree")
	r.git("worktree", "add", "--quiet", tree)
	r.write("only-in-main", "x\n")
	if err := os.WriteFile(filepath.Join(tree, "new"), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Read(t.Context(), filepath.Join(tree, "dir"), r.base)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"added new"}, summary(c)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	r.git("cat-file", "-e", c.Tree)
}

func TestReadSHA256(t *testing.T) {
	r := newRepo(t)
	r.sh(`rm -r .git; git init -q --object-format=sha256; echo x >f; git add f; git commit -qm one; echo y >f`)
	r.base = "HEAD"
	if c := r.wantFiles("modified f"); len(c.Tree) != 64 {
		t.Errorf("the tree: %s", c.Tree)
	}
}

func TestReadErrors(t *testing.T) {
	r := newRepo(t, "f", "dir/g")
	for base, want := range map[string]string{
		"none": "none is no commit", "--help": "--help is no commit", "": "is no commit",
		"HEAD:f": "HEAD:f is no commit",
		"a\nb":   `"a\nb" is no commit`,
	} {
		if _, err := Read(t.Context(), r.dir, base); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", base, err, want)
		}
	}
	if _, err := Read(t.Context(), t.TempDir(), "HEAD"); err == nil || !strings.Contains(err.Error(),
		"not a git repository") {
		t.Errorf("no repository: %v", err)
	}
	if _, err := Read(t.Context(), filepath.Join(r.dir, "none"), "HEAD"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// An object that was overwritten is found: git would read it as it is.
func TestReadForgedBase(t *testing.T) {
	for _, object := range []string{"HEAD^{tree}", "HEAD:dir", "HEAD"} {
		t.Run(object, func(t *testing.T) {
			r := newRepo(t, "f", "dir/g")
			path := func(id string) string { return filepath.Join(r.dir, ".git/objects", id[:2], id[2:]) }
			id := strings.TrimSpace(r.git("rev-parse", object))
			r.sh(`echo 1 >>f; echo 1 >>dir/g; git commit -qam evil`)
			other, err := os.ReadFile(path(strings.TrimSpace(r.git("rev-parse", object))))
			if err == nil {
				err = os.Remove(path(id))
			}
			if err == nil {
				err = os.WriteFile(path(id), other, 0o444)
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = Read(t.Context(), r.dir, r.base)
			if err == nil || !strings.Contains(err.Error(), "another content than its id says") &&
				!strings.Contains(err.Error(), "hash mismatch") {
				t.Errorf("the error: %v", err)
			}
		})
	}
}

func TestParseDiff(t *testing.T) {
	t.Parallel()
	for _, out := range []string{
		":\x00", ":1 2 3 4\x00a\x00", ":100644 100644 a b X\x00p\x00", ":100644 100644 a b M\x00p\x001\t2\x00",
		":100644 100644 a b M\x00p\x001\t2\tq\x00", ":100644 100644 a b M\x00p\x00-\t-\tp\x00", "1\t2\tq\x00", "junk",
	} {
		if files, err := parseDiff(out); err == nil {
			t.Errorf("%q: no error, but %v", out, files)
		}
	}
	if files, err := parseDiff(""); err != nil || len(files) != 0 {
		t.Errorf("nothing: %v, %v", files, err)
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a b": "a b", "é": "é", "": `""`, " a": `" a"`, "a\nb": `"a\nb"`, "\xff": `"\xff"`, "\x1b[m": `"\x1b[m"`,
		`"`: `"\""`, "\u202e": `"\u202e"`,
	} {
		if got := Quote(name); got != want {
			t.Errorf("Quote(%q) = %s, want %s", name, got, want)
		}
	}
}
