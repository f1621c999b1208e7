package release

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/git/gittest"
)

func TestCommit(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	for name, value := range map[string]string{"commit.gpgsign": "true", "user.signingKey": "none",
		"i18n.commitEncoding": "latin1", "core.commentChar": "C", "gpg.program": "false"} {
		p.git("config", name, value)
	}
	c := Commit{Base: p.first, Tree: p.tree(p.first, "new=ü"), Subject: "Add new", Body: "Why.", Task: "t-ü",
		Attempt: 2, At: noon}
	id, err := p.repo.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p.same("the commit", p.git("cat-file", "commit", id), "tree "+c.Tree+"\nparent "+p.first+
		"\nauthor Person <person@example.invalid> 1767355200 +0000\ncommitter Person <person@example.invalid> "+
		"1767355200 +0000\n\nAdd new\n\nWhy.\n\nCoppice-Task: t-ü\nCoppice-Attempt: 2")
	if again, err := p.repo.Commit(t.Context(), c); again != id || err != nil {
		t.Errorf("again: %s, %v", again, err)
	}
	p.same("main", p.git("rev-parse", "main"), p.first)

	p.git("config", "--unset", "user.email")
	p.git("config", "user.useConfigOnly", "true")
	if id, err = p.repo.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	p.same("the author", p.git("log", "-1", "--format=%an <%ae>", id), "Coppice <coppice@localhost>")
}

func TestCommitRefused(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	tree := p.tree(p.first, "new=1")
	for name, c := range map[string]Commit{
		"no commit": {Base: "none", Tree: tree, Task: "t", Attempt: 1},
		"no tree":   {Base: p.first, Tree: p.first, Task: "t", Attempt: 1},
		"option":    {Base: p.first, Tree: "--all", Task: "t", Attempt: 1},
		"no task":   {Base: p.first, Tree: tree, Attempt: 1},
		"lines":     {Base: p.first, Tree: tree, Task: "t\nCoppice-Task: u", Attempt: 1},
		"blanks":    {Base: p.first, Tree: tree, Task: " t", Attempt: 1},
		"long":      {Base: p.first, Tree: tree, Task: strings.Repeat("t", 501), Attempt: 1},
		"attempt":   {Base: p.first, Tree: tree, Task: "t"},
	} {
		if id, err := p.repo.Commit(t.Context(), c); err == nil {
			t.Errorf("%s: %s", name, id)
		}
	}
	empty := Commit{Base: p.first, Tree: p.git("rev-parse", p.first+"^{tree}"), Task: "t", Attempt: 1}
	if _, err := p.repo.Commit(t.Context(), empty); !errors.Is(err, ErrEmpty) {
		t.Errorf("%v", err)
	}
}

// What a language model writes is text of the message and nothing else.
func TestMessage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ subject, body, want string }{
		{"Fix it", "", "Fix it"},
		{"", "", "t, attempt 1"},
		{"#### ", "\n \n", "t, attempt 1"},
		{"# Fix\nthe\x1b[31m bug\x00", "", "Fix the bug"},
		{strings.Repeat("ü", 50), "", strings.Repeat("ü", 34) + "…"},
		{"S", "one\r\n\n\n\ntwo  \n# three\n", "S\n\none\n\ntwo\n  # three"},
		{"S", "text\n\nCoppice-Task: u\nCoppice-Attempt: 9", "S\n\ntext\n\n  Coppice-Task: u\n  Coppice-Attempt: 9"},
		{"S", "coppice-task : u\n---\ndiff --git a b\n(cherry picked from commit 1)",
			"S\n\n  coppice-task : u\n  ---\n  diff --git a b\n  (cherry picked from commit 1)"},
		{"S", "a\u2028Coppice-Task: u\rCoppice-Task: v", "S\n\na Coppice-Task: u Coppice-Task: v"},
		{"S", "\u202eCoppice-Task: u\n\x1b[0mCoppice-Task: u", "S\n\n  Coppice-Task: u\n  Coppice-Task: u"},
		{"S", strings.Repeat("ü", 5000), "S\n\n" + strings.Repeat("ü", 4096) + "\n…"},
	} {
		c := Commit{Subject: test.subject, Body: test.body, Task: "t", Attempt: 1}
		got, err := c.message()
		if want := test.want + "\n\nCoppice-Task: t\nCoppice-Attempt: 1\n"; got != want || err != nil {
			t.Errorf("%q, %q:\n%q, expected\n%q, %v", test.subject, test.body, got, want, err)
		}
	}
}

// Git takes only the trailers of Commit for trailers, whatever the subject and the body are.
func FuzzMessage(f *testing.F) {
	p := &repository{}
	f.Add("Coppice-Task: x", "Coppice-Task: x\nCoppice-Attempt: 3")
	f.Add("s", "a\n\nCoppice-Task: x\n\n")
	f.Add("s\n\nCoppice-Task: x", "\n\n\nCoppice-Task: x\n ---\n")
	f.Add("#", "#\n\x00\x1b]0;Coppice-Task: x\x07\nCoppice-Task: x\v\f")
	dir := f.TempDir()
	if out, err := gittest.Try(dir, "init", "-q"); err != nil {
		f.Fatal(out)
	}
	f.Fuzz(func(t *testing.T, subject, body string) {
		p.T = t
		c := Commit{Subject: subject, Body: body, Task: "t", Attempt: 1}
		message, err := c.message()
		if err != nil {
			t.Fatal(err)
		}
		g := runner(dir + "/.git")
		out, err := g.RunWith(t.Context(), message, "interpret-trailers", "--parse", "--no-divider")
		if err != nil || out != "Coppice-Task: t\nCoppice-Attempt: 1\n" {
			t.Errorf("%q has the trailers %q, %v", message, out, err)
		}
		if first, _, _ := strings.Cut(message, "\n"); first == "" || len(first) > maxSubject || first[0] == '#' {
			t.Errorf("%q has the subject %q", message, first)
		}
	})
}

func TestMerged(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	one := p.attempt("t", p.first, "x=1")
	two := p.attempt("u", p.first, "y=1")
	p.attempt("t", p.first, "z=1") // not merged
	p.merge(one)
	p.merge(two) // by a merge commit
	p.write("p", "1")
	p.commitAll("Coppice-Task: t\n\nCoppice-Task: t\nCoppice-Attempt: 5\n\nSigned-off-by: x")
	p.write("p", "2")
	p.commitAll("several\n\nCoppice-Task: t\nCoppice-Attempt: 7\nCoppice-Task: v\nCoppice-Attempt: 8")
	p.write("p", "3")
	p.commitAll("odd\n\nCoppice-Task: t\nCoppice-Task: t\nCoppice-Attempt: 9")
	p.write("p", "4")
	p.commitAll("no number\n\nCoppice-Task: t\nCoppice-Attempt: x")
	for _, test := range []struct {
		task  string
		since time.Time
		want  []int
	}{
		{"t", time.Time{}, []int{7, 1}},
		{"t", noon, []int{7, 1}},
		{"t", noon.Add(time.Second), []int{7}},
		{"u", noon.Add(999 * time.Millisecond), []int{1}},
		{"v", noon, []int{8}},
		{"T", noon, nil},
		{"", time.Time{}, nil},
	} {
		found, err := p.repo.Merged(t.Context(), "main", test.task, test.since)
		var got []int
		for _, f := range found {
			got = append(got, f.Attempt)
		}
		if err != nil || len(got) != len(test.want) {
			t.Errorf("%s since %v: %v, expected %v, %v", test.task, test.since, got, test.want, err)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%s since %v: %v, expected %v", test.task, test.since, got, test.want)
			}
		}
	}
	if found, _ := p.repo.Merged(t.Context(), "main", "u", noon); found[0] != (Released{1, two, noon.Local()}) {
		t.Errorf("%+v", found)
	}
	if _, err := p.repo.Merged(t.Context(), "none", "t", noon); err == nil {
		t.Error("there is no such branch")
	}
}

// The walk ends after a number of older commits in a row, and not at the first one.
func TestMergedIsBounded(t *testing.T) {
	t.Parallel()
	w := walk{task: "t", since: noon}
	var in strings.Builder
	record := func(at time.Time, task string) {
		in.WriteString("c\x00" + itoa(at.Unix()) + "\x00" + task + "\n\x001\n\x00")
	}
	for range maxOlder {
		record(noon.Add(-time.Hour), "t")
	}
	record(noon, "t")
	record(noon, strings.Repeat("x", 10*maxField))
	for range maxOlder + 10 {
		record(noon.Add(-time.Hour), "t")
	}
	err := w.read(strings.NewReader(in.String()))
	if !errors.Is(err, errEnough) || !w.enough || len(w.found) != 1 || w.commits != 2*maxOlder+3 {
		t.Errorf("%v, %+v", err, w)
	}
}

func TestBranch(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	one, two := p.attempt("t", p.first, "x=1"), p.attempt("t", p.first, "x=2")
	other := p.attempt("u", p.first, "x=3")
	set := func(name, commit string) error { return p.repo.Branch(t.Context(), name, commit) }
	for _, commit := range []string{one, one, two} {
		if err := set("coppice/t", commit); err != nil {
			t.Fatal(err)
		}
		p.same("the branch", p.git("rev-parse", "coppice/t"), commit)
	}
	if err := set("coppice/t", other); !errors.Is(err, ErrNotOurs) {
		t.Errorf("%v", err)
	}
	if err := set("main", one); !errors.Is(err, ErrNotOurs) {
		t.Errorf("%v", err)
	}
	p.git("checkout", "-q", "coppice/t")
	if err := set("coppice/t", one); !errors.Is(err, ErrCheckedOut) {
		t.Errorf("%v", err)
	}
	p.git("bisect", "start")
	p.git("checkout", "-q", "--detach", "main")
	var busy *BusyError
	if err := set("coppice/t", one); !errors.As(err, &busy) || busy.Operation != "bisect" {
		t.Errorf("%v", err)
	}
	p.git("bisect", "reset", "main")
	p.git("symbolic-ref", "refs/heads/link", "refs/heads/coppice/t")
	for _, name := range []string{"", "-d", "HEAD", "a..b", "a b", "a.lock", "@{-1}", "link", "x/", "x\x00y"} {
		if err := set(name, one); err == nil {
			t.Errorf("%q was made", name)
		}
	}
	if err := set("new", p.first); err == nil {
		t.Error("a commit without a task has a branch")
	}
	p.same("the branch", p.git("rev-parse", "coppice/t"), two)
	p.git("checkout", "-q", "--orphan", "unborn")
	if err := set("unborn", one); !errors.Is(err, ErrCheckedOut) {
		t.Errorf("%v", err)
	}
}

// The attempt that a branch is at is known by the trailers of its commit.
func TestTip(t *testing.T) {
	t.Parallel()
	p := newRepository(t)
	commit := p.attempt("t", p.first, "x=1")
	if err := p.repo.Branch(t.Context(), "review/t", commit); err != nil {
		t.Fatal(err)
	}
	for branch, want := range map[string]string{"review/t": commit, "main": "", "none": ""} {
		switch tip, err := p.repo.Tip(t.Context(), branch, "t"); {
		case err != nil || (tip == nil) != (want == ""):
			t.Errorf("%s: %+v, %v", branch, tip, err)
		case tip != nil && (tip.Commit != want || tip.Attempt != 1):
			t.Errorf("%s: %+v", branch, tip)
		}
	}
	if tip, err := p.repo.Tip(t.Context(), "review/t", "u"); tip != nil || err != nil {
		t.Errorf("of another task: %+v, %v", tip, err)
	}
	subject, body, err := p.repo.Message(t.Context(), commit)
	if subject != "Change t" || body != "Coppice-Task: t\nCoppice-Attempt: 1" || err != nil {
		t.Errorf("%q, %q, %v", subject, body, err)
	}
}
