package pullrequest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/git/gittest"
	"github.com/coppice-dev/coppice/internal/pullrequest/ghtest"
)

func TestMain(m *testing.M) {
	gittest.Main(m, ghtest.Variable, func(dir string) int { return ghtest.Main(dir, os.Args[1:]) })
}

// place is a repository with a Hub as its remote.
type place struct {
	*ghtest.Hub
	dir    string
	remote *Remote
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{dir: t.TempDir()}
	gittest.Run(t, p.dir, "init", "-q", "-b", "main", "--template=")
	gittest.Run(t, p.dir, "config", "user.name", "Person")
	gittest.Run(t, p.dir, "config", "user.email", "person@example.invalid")
	gittest.Write(t, filepath.Join(p.dir, "a"), "1\n")
	gittest.Run(t, p.dir, "add", "-A")
	gittest.Run(t, p.dir, "commit", "-qm", "first")
	p.Hub = ghtest.New(t, p.dir)
	t.Setenv("PATH", p.Bin+":"+os.Getenv("PATH"))
	p.remote = p.open("origin")
	return p
}

// environ is the environment of a user, with variables that would lead elsewhere.
func (p *place) environ() []string {
	return append(os.Environ(), "GIT_DIR=/nowhere", "GH_REPO=x/y")
}

func (p *place) open(name string) *Remote {
	p.Helper()
	r, err := Open(p.Context(), p.dir, name, p.environ())
	if err != nil {
		p.Fatal(err)
	}
	return r
}

// commit returns a commit on main that is in no branch.
func (p *place) commit(text string) string {
	p.Helper()
	gittest.Write(p, filepath.Join(p.dir, "a"), text)
	tree := gittest.Run(p, p.dir, "-c", "core.safecrlf=false", "stash", "create")
	gittest.Run(p, p.dir, "checkout", "-q", "--", "a")
	return gittest.Run(p, p.dir, "commit-tree", "-p", "main", "-m", text, tree+"^{tree}")
}

func (p *place) proposal(commit string, known ...string) Proposal {
	return Proposal{Branch: "review/t-1", Base: "main", Commit: commit, Known: known, Title: "-Change \"it\"",
		Body: "Text\n", Draft: true}
}

func (p *place) propose(q Proposal) Request {
	p.Helper()
	r, err := p.remote.Propose(p.Context(), q)
	if err != nil {
		p.Fatal(err)
	}
	return r
}

// A proposal can be repeated, and a later one of the same task changes the same pull request.
func TestPropose(t *testing.T) {
	p := newPlace(t)
	p.Add(ghtest.Request{Head: "review/t-1", Base: "main", State: "OPEN", Oid: strings.Repeat("a", 40), Cross: true})
	gittest.Write(t, filepath.Join(p.dir, ".git", "hooks", "pre-push"), "#!/bin/sh\nexit 1\n")
	if err := os.Chmod(filepath.Join(p.dir, ".git", "hooks", "pre-push"), 0o755); err != nil {
		t.Fatal(err)
	}
	one := p.commit("one\n")
	want := Request{URL: ghtest.URL(2), State: IsOpen, Head: one}
	for range 2 {
		if r := p.propose(p.proposal(one)); r != want {
			t.Errorf("%+v", r)
		}
	}
	made := p.Requests()[1]
	if made.Oid != one || made.Title != "-Change \"it\"" || made.Body != "Text\n" || !made.Draft {
		t.Errorf("%+v", made)
	}
	two := p.commit("two\n")
	want.Head = two
	if r := p.propose(p.proposal(two, one)); r != want || len(p.Requests()) != 2 {
		t.Errorf("%+v", r)
	}
	merged := p.Merge(2)
	want.State, want.Merge = IsMerged, merged
	if all, err := p.remote.Find(t.Context(), "review/t-1", "main"); err != nil || len(all) != 1 || all[0] != want {
		t.Errorf("%+v, %v", all, err)
	}
	if tip, err := p.remote.Tip(t.Context(), "main"); tip != merged || err != nil {
		t.Errorf("%s, %v", tip, err)
	}
	gittest.Run(t, p.dir, "cat-file", "-e", merged)
	three := p.commit("three\n")
	p.propose(p.proposal(three))
	p.Close(3, "ann", "Not like this.")
	if all, err := p.remote.Remarks(t.Context(), ghtest.URL(3)); err != nil || len(all) != 1 || all[0].By != "ann" ||
		all[0].Text != "Not like this." || all[0].At.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	p.propose(p.proposal(p.commit("four\n"), three))
	if all := p.Requests(); len(all) != 4 || all[3].State != "OPEN" {
		t.Errorf("%+v", all)
	}
}

// What others have pushed is never overwritten, also if it comes between the look and the push.
func TestProposeOverwritesNothing(t *testing.T) {
	p := newPlace(t)
	one, theirs, two := p.commit("one\n"), p.commit("theirs\n"), p.commit("two\n")
	p.propose(p.proposal(one))
	gittest.Run(t, p.dir, "push", "-q", "-f", "origin", theirs+":refs/heads/review/t-1")
	p.wantError(p.proposal(two, one), Rejected, "others have pushed")
	p.BeforePush("git update-ref refs/heads/review/t-1 " + one)
	p.wantError(p.proposal(two, theirs), Rejected, "others have pushed")
	p.BeforePush("true")
	if got := p.Git("rev-parse", "review/t-1"); got != one {
		t.Errorf("%s", got)
	}
	hook := filepath.Join(p.Dir, ghtest.Repository+".git", "hooks", "pre-receive")
	gittest.Write(t, hook, "#!/bin/sh\necho protected >&2\nexit 1\n")
	if err := os.Chmod(hook, 0o755); err != nil {
		t.Fatal(err)
	}
	p.wantError(p.proposal(two, one), Rejected, "refuses the branch review/t-1")
	if n := len(p.Requests()); n != 1 {
		t.Errorf("%d pull requests", n)
	}
}

func (p *place) wantError(q Proposal, kind Kind, words string) {
	p.Helper()
	r, err := p.remote.Propose(p.Context(), q)
	var failed *Error
	if !errors.As(err, &failed) || kind != Unknown && failed.Kind != kind || !strings.Contains(err.Error(), words) {
		p.Errorf("%+v, %v (%+v), expected kind %d, %q", r, err, failed, kind, words)
	}
}

// Failures of git and gh say who has to do what.
func TestProposeFails(t *testing.T) {
	p := newPlace(t)
	q := p.proposal(p.commit("one\n"))
	for _, c := range []struct {
		command, text string
		code          int
		kind          Kind
		words         string
	}{
		{"ssh", "ssh: Could not resolve hostname github.example: Name or service not known", 255, Network, "resolve"},
		{"ssh", "git@github.example: Permission denied (publickey).", 255, Login, "gh auth login"},
		{"ssh", "ERROR: Repository not found.", 255, Setup, "check the URL"},
		{"list", "To get started with GitHub CLI, please run:  gh auth login", 4, Login, "gh auth login"},
		{"list", "error connecting to api.github.com", 1, Network, "error connecting"},
		{"list", "HTTP 502: Bad Gateway (https://api.github.com/graphql)", 1, Network, "502"},
		{"create", "HTTP 403: API rate limit exceeded for user", 1, Network, "rate limit"},
		{"create", "pull request create failed: GraphQL: Draft pull requests are not supported (createPullRequest)", 1,
			Rejected, "Draft"},
		{"create", "\x1b[31mno idea", 1, Unknown, "no idea"},
	} {
		p.Break(c.command, c.text, c.code)
		p.wantError(q, c.kind, c.words)
		p.Break(c.command, "", 0)
	}
	for command, texts := range map[string][]string{
		"list": {"", "{", "[{}]", `[{"url":"x"`, `[{"url":"https://github.example/a/b/pull/1","state":"OPEN","headRefName":` +
			`"review/t-1","baseRefName":"main","headRefOid":"--all"}]`, "[" + strings.Repeat(" ", maxAnswer) + "]"},
		"create": {"", "done\n", "http://github.example/acme/shop/pull/1", "https://evil.example/acme/shop/pull/1",
			"https://github.example/acme/shop/pull/new/x", "https://github.example@evil.example/acme/shop/pull/1",
			"https://github.example/acme/shop/pull/1?x=y", "https://github.example/a/../../pull/1"},
	} {
		for _, text := range texts {
			p.Print(command, text)
			if text == "[{}]" { // that is another branch
				continue
			}
			p.wantError(q, Unknown, "gh pr")
			if command == "create" && len(p.Requests()) > 0 {
				p.Close(len(p.Requests()), "x", "x")
			}
		}
		if err := os.Remove(filepath.Join(p.Dir, "print-"+command)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpen(t *testing.T) {
	p := newPlace(t)
	for address, want := range map[string]string{
		"https://github.com/acme/shop.git":            "github.com/acme/shop",
		"https://user:secret@GitHub.com/acme/shop/":   "github.com/acme/shop",
		"ssh://git@ssh.github.com:443/acme/shop.git":  "github.com/acme/shop",
		"git@github.example:acme/shop.git":            "github.example/acme/shop",
		"github.example:acme/.github":                 "github.example/acme/.github",
		"https://github.com/acme/shop/tree/main":      "",
		"https://github.com/-acme/shop":               "",
		"https://github.com/acme/..":                  "",
		"https://github.com/acme/--web x":             "",
		"/srv/shop.git":                               "",
		"file:///srv/acme/shop.git":                   "",
		"ext::sh -c 'touch x' acme/shop":              "",
		"https://user:secret@github.com/acme/shop/up": "",
	} {
		gittest.Run(t, p.dir, "config", "remote.other.url", address)
		r, err := Open(t.Context(), p.dir, "other", p.environ())
		var failed *Error
		switch {
		case want != "" && (err != nil || r.String() != want):
			t.Errorf("%s: %v, %v", address, r, err)
		case want == "" && (!errors.As(err, &failed) || failed.Kind != Setup ||
			strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %v, %v", address, r, err)
		}
	}
	for _, name := range []string{"none", "--all", ""} {
		var failed *Error
		if _, err := Open(t.Context(), p.dir, name, p.environ()); !errors.As(err, &failed) || failed.Kind != Setup ||
			!strings.Contains(err.Error(), "git remote add") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := p.remote.Tip(t.Context(), "none"); err == nil || !strings.Contains(err.Error(), "has no branch none") {
		t.Errorf("%v", err)
	}
}
