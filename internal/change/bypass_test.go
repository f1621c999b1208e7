package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A process that changes a protected path is found out, however it does it.
func TestBypass(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"dot":            {`echo x >>./.github/x`, "protected: .github/x: modified"},
		"parent":         {`echo x >>src/../.github/x`, "protected: .github/x: modified"},
		"absolute":       {`echo x >>"$PWD/.github/x"`, "protected: .github/x: modified"},
		"file link":      {`echo x >>filelink`, "protected: .github/x: modified"},
		"directory link": {`echo x >dirlink/new`, "protected: .github/new: added"},
		"own file link": {`ln -s .github/x l`,
			"link: l: a symbolic link to .github/x, through which .github could be changed"},
		"own dir link": {`ln -s ../.github src/l`,
			"link: src/l: a symbolic link to ../.github, through which .github could be changed"},
		"link to root": {`ln -s . l`, "link: l: a symbolic link to ., through which .git could be changed"},
		"chain of links": {`ln -s dirlink l`,
			"link: l: a symbolic link to dirlink, through which .github could be changed"},
		"link out": {`ln -s /etc l`,
			"link: l: a symbolic link to /etc, which leads out of the work tree or nowhere"},
		"relative out": {`ln -s ../../x src/l`,
			"link: src/l: a symbolic link to ../../x, which leads out of the work tree or nowhere"},
		"directory out": {`rm -r src; ln -s .. src`,
			"link: src: a symbolic link to .., which leads out of the work tree or nowhere"},
		"link to git": {`ln -s .git/hooks l`,
			"link: l: a symbolic link to .git/hooks, through which .git could be changed"},
		"case":         {`mkdir .GITHUB; echo x >.GITHUB/x`, "protected: .GITHUB/x: added"},
		"case of part": {`mkdir .gitHub; ln -s ../src .gitHub/l`, "protected: .gitHub/l: added"},
		"ignorable":    {`d=$(printf '.g\342\200\214ithub'); mkdir "$d"; echo x >"$d/y"`, `/y": added`},
		"decomposed":   {`d=$(printf 'Pru\314\210fung'); mkdir "$d"; echo x >"$d/x"`, "fung/x: added"},
		"renamed into": {`git mv big .github/big`, "protected: .github/big: renamed from big"},
		"renamed from": {`git mv .github/x y`, "protected: .github/x: renamed to y"},
		"sed":          {`sed -i s/content/CONTENT/ .github/x`, "protected: .github/x: modified"},
		"find -delete": {`find .github -type f -delete`, "protected: .github/x: deleted"},
		"make": {`printf 'all:\n\techo x >>.github/x\n' >m; make -sf m; rm m`,
			"protected: .github/x: modified"},
		"chmod": {`chmod +x .github/x; git config core.fileMode false`,
			"protected: .github/x: changed in its mode from 100644 to 100755"},
		"hard link": {`ln .github/x src/h; echo x >>src/h`, "protected: .github/x: modified"},
		"committed": {`echo x >>.github/x; git commit -qam x; git update-index --skip-worktree .github/x`,
			"protected: .github/x: modified"},
		"by a file":      {`rm -r .github; echo x >.github`, "protected: .github: added"},
		"by a directory": {`rm .github/x; mkdir .github/x; echo x >.github/x/y`, "protected: .github/x/y: added"},
		"by a link":      {`cp -r .github ../copy 2>/dev/null || cp -r .github src/copy; rm -r .github; ln -s src/copy .github`, "protected: .github: added"},
		"ignored":        {`echo '*' >.gitignore; echo x >.github/new`, "protected: .github/new: added"},
		"nested":         {`git init -q .github; git -C .github add -A; git -C .github commit -qm x; echo x >.github/new`, "hidden: .github: a repository in the repository"},
		"as a submodule": {`git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub 2>/dev/null`,
			"review mode: sub: a submodule was added"},
		"gitmodules": {`printf '[submodule "x"]\n\tpath = x\n\turl = /tmp/x\n' >.gitmodules`,
			"review validation: .gitmodules"},
		"checkout": {`git checkout -q -b other; echo x >>.github/x; git commit -qam x; git checkout -q -B main2`,
			"protected: .github/x: modified"},
		"patch": {`printf -- '--- a/.github/x\n+++ b/.github/x\n@@ -1 +1 @@\n-content of .github/x\n+x\n' | git apply`,
			"protected: .github/x: modified"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, ".github/x", "src/a", "f", "big="+lines(30))
			r.sh(`ln -s .github/x filelink; ln -s .github dirlink; git add -A`)
			r.commit("links")
			r.base = strings.TrimSpace(r.git("rev-parse", "HEAD"))
			r.sh(tt.script)
			found := Check(r.read(), newRules(t, Evolution, ".github", "Prüfung"))
			if got := texts(found); !strings.Contains(got, tt.want) {
				t.Errorf("found:\n%swant %s", got, tt.want)
			}
		})
	}
}

// A change that no rule is about is not found.
func TestNoBypass(t *testing.T) {
	r := newRepo(t, ".github/x", "src/a")
	r.sh(`echo x >>src/a; mkdir .github-x; echo x >.github-x/x; ln -s a src/l; touch .github/x; chmod -x .github/x`)
	if got := texts(Check(r.read(), newRules(t, Evolution, ".github"))); got != "" {
		t.Errorf("found: %s", got)
	}
}

// A process that an agent has left behind writes after the change was read.
func TestVerifyDetached(t *testing.T) {
	r := newRepo(t, "f", "dir/g")
	control := t.TempDir()
	r.sh(fmt.Sprintf(`mkfifo %[1]s/go %[1]s/done
		setsid sh -c 'read x <%[1]s/go; echo evil >>dir/g; echo x >"$(printf "a\nb")"; echo >%[1]s/done' >/dev/null 2>&1 &
		echo fine >>f`, control))
	c := r.wantFiles("modified f")
	if err := c.Verify(t.Context()); err != nil {
		t.Errorf("before: %v", err)
	}
	if err := os.WriteFile(filepath.Join(control, "go"), []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(control, "done")); err != nil {
		t.Fatal(err)
	}
	err := c.Verify(t.Context())
	if want := ErrMoved.Error() + `: "a\nb", dir/g`; !errors.Is(err, ErrMoved) || err.Error() != want {
		t.Errorf("the error: %v, want %s", err, want)
	}
	if got := r.git("cat-file", "-p", c.Tree+":dir/g"); got != "content of dir/g\n" {
		t.Errorf("the tree has another content than was read: %q", got)
	}
}

// What is hidden later is found, too, and also a change of content that leaves size and times alone.
func TestVerifyMoved(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"repository":  {`git init -q dir`, ": dir"},
		"same size":   {`touch -r f t; sed -i s/content/CONTENT/ f; touch -r t f; rm t`, ": f"},
		"mode":        {`chmod +x f`, ": f"},
		"reverted":    {`git checkout -q .`, ": f"},
		"many":        {`touch 1 2 3 4 5 6 7 8`, ": 1, 2, 3, 4, 5, 3 more"},
		"too large":   {`seq 10001 | xargs touch`, ": now more than 10,000 files"},
		"index alone": {`git add -A; git commit -qm x`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, "f", "dir/g")
			r.write("f", "other content\n")
			c := r.read()
			r.sh(tt.script)
			err := c.Verify(t.Context())
			if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, ErrMoved) ||
				!strings.HasSuffix(err.Error(), tt.want)) {
				t.Errorf("the error: %v, want %q", err, tt.want)
			}
		})
	}
}

// What is too large is not read, and takes no long time.
func TestReadTooLarge(t *testing.T) {
	for name, tt := range map[string]struct {
		script, want string
		files        int
	}{
		"a huge file":      {`truncate -s 1T huge`, "more than 256 MiB in changed files", 0},
		"a grown file":     {`truncate -s 300M f`, "more than 256 MiB in changed files", 0},
		"100,000 files":    {`mkdir many; cd many; seq 100000 | xargs -n 5000 touch`, "more than 10,000 files", 0},
		"10,000 files":     {`mkdir many; cd many; seq 10000 | xargs touch`, "", 10_000},
		"deleted":          {`seq 10001 | xargs touch; git add -A; git commit -qm x; git tag many; seq 10001 | xargs rm`, "more than 10,000 files", 0},
		"ignored files":    {`mkdir out; cd out; seq 20000 | xargs touch`, "", 0},
		"sum of all files": {`for i in 1 2 3; do truncate -s 100M s$i; done`, "more than 256 MiB in changed files", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, "f", ".gitignore=/out\n")
			r.sh(tt.script)
			if name == "deleted" {
				r.base = "many"
			}
			start := time.Now()
			c := r.read()
			t.Logf("read in %s", time.Since(start))
			if c.TooLarge != tt.want || len(c.Files) != tt.files || tt.want != "" && c.Tree != "" {
				t.Errorf("too large: %q, %d files, tree %q; want %q, %d", c.TooLarge, len(c.Files), c.Tree, tt.want,
					tt.files)
			}
			if err := c.Verify(t.Context()); (err == nil) != (tt.want == "") {
				t.Errorf("verified: %v", err)
			}
		})
	}
}

func TestReadDeep(t *testing.T) {
	r := newRepo(t, "f")
	r.sh(`i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done; echo x >x`)
	c := r.wantFiles()
	if len(c.Hidden) != 1 || c.Hidden[0].What != "more than 200 directories deep" {
		t.Errorf("hidden: %v", c.Hidden)
	}
}

func TestReadCancelled(t *testing.T) {
	r := newRepo(t, "f")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, r.dir, r.base); !errors.Is(err, context.Canceled) {
		t.Errorf("the error: %v", err)
	}
}

// No temporary files stay.
func TestReadCleansUp(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	read := func(t *testing.T) {
		r := &repo{T: t, dir: t.TempDir()}
		r.git("init", "--quiet")
		r.commit("first")
		r.base = "HEAD"
		r.write("new", "x")
		c := r.read()
		if err := c.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := c.Contents(t.Context(), c.Files); err != nil {
			t.Error(err)
		}
	}
	t.Run("read", read)
	left, err := filepath.Glob(filepath.Join(dir, "coppice-change-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
