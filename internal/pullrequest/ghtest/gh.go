package ghtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/filelock"
	"github.com/coppice-dev/coppice/internal/git/gittest"
)

// fields returns the JSON fields of pull requests that gh 2.46 knows.
func fields() []string {
	return strings.Fields("additions assignees author autoMergeRequest baseRefName body changedFiles closed closedAt " +
		"comments commits createdAt deletions files headRefName headRefOid headRepository headRepositoryOwner id " +
		"isCrossRepository isDraft labels latestReviews maintainerCanModify mergeCommit mergeStateStatus mergeable " +
		"mergedAt mergedBy milestone number potentialMergeCommit projectCards projectItems reactionGroups " +
		"reviewDecision reviewRequests reviews state statusCheckRollup title updatedAt url")
}

// command is a command of gh with its flags, and whether each has a value.
type command struct {
	flags     map[string]bool
	arguments int
	run       func(dir string, flags map[string]string, args []string) (string, error)
}

// failure is an error with an exit code.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

func fail(format string, args ...any) error { return &failure{1, fmt.Sprintf(format, args...)} }

// Main is gh on the Hub in a directory. It returns the exit code.
func Main(dir string, args []string) int {
	out, err := run(dir, args)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if f, ok := errors.AsType[*failure](err); ok {
			return f.code
		}
		return 1
	}
	fmt.Print(out)
	return 0
}

func run(dir string, args []string) (string, error) {
	for name, want := range map[string]string{"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "GH_REPO": "",
		"GH_HOST": "", "GIT_DIR": "", "COPPICE_TOKEN": ""} {
		if got := os.Getenv(name); got != want {
			return "", fail("ghtest: %s is %q, expected %q", name, got, want)
		}
	}
	repo := map[string]bool{"--repo": true}
	commands := map[string]command{
		"list": {with(repo, "--head", "--base", "--state", "--limit", "--json"), 0, list},
		"view": {with(repo, "--json"), 1, view},
		"create": {with(map[string]bool{"--repo": true, "--draft": false}, "--head", "--base", "--title",
			"--body-file"), 0, create},
	}
	if len(args) < 2 || args[0] != "pr" {
		return "", fail("unknown command %q for \"gh\"", args)
	}
	c, ok := commands[args[1]]
	if !ok {
		return "", fail("unknown command %q for \"gh pr\"", args[1])
	}
	flags, rest, err := parse(c, args[2:])
	switch {
	case err != nil:
		return "", err
	case len(rest) != c.arguments:
		return "", fail("accepts %d arg(s), received %d", c.arguments, len(rest))
	case flags["--repo"] != Host+"/"+Repository:
		return "", fail("GraphQL: Could not resolve to a Repository with the name '%s'. (repository)", flags["--repo"])
	}
	if text, err := os.ReadFile(filepath.Join(dir, "fail-"+args[1])); err == nil {
		code, text, _ := strings.Cut(string(text), " ")
		n, _ := strconv.Atoi(code)
		return "", &failure{n, text}
	}
	out, err := c.run(dir, flags, rest)
	if text, err := os.ReadFile(filepath.Join(dir, "print-"+args[1])); err == nil {
		return string(text), nil
	}
	return out, err
}

// with returns flags that have a value, together with others.
func with(others map[string]bool, names ...string) map[string]bool {
	all := map[string]bool{}
	for name, value := range others {
		all[name] = value
	}
	for _, name := range names {
		all[name] = true
	}
	return all
}

func parse(c command, args []string) (flags map[string]string, rest []string, err error) {
	flags = map[string]string{}
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			rest = append(rest, args[i])
			continue
		}
		hasValue, known := c.flags[args[i]]
		_, twice := flags[args[i]]
		switch {
		case !known || twice:
			return nil, nil, fail("unknown flag: %s", args[i])
		case !hasValue:
			flags[args[i]] = "true"
		case i+1 == len(args):
			return nil, nil, fail("flag needs an argument: %s", args[i])
		default:
			flags[args[i]] = args[i+1]
			i++
		}
	}
	for _, f := range strings.Split(flags["--json"], ",") {
		if f != "" && !slices.Contains(fields(), f) {
			return nil, nil, fail("Unknown JSON field: %q", f)
		}
	}
	return flags, rest, nil
}

// list is gh pr list.
func list(dir string, flags map[string]string, _ []string) (string, error) {
	all, err := load(dir)
	if err != nil {
		return "", err
	}
	limit, err := strconv.Atoi(flags["--limit"])
	if err != nil || limit < 1 || flags["--state"] != "all" {
		return "", fail("ghtest: %q", flags)
	}
	answer := []map[string]any{}
	for _, r := range slices.Backward(all) {
		if r.Head == flags["--head"] && r.Base == flags["--base"] && len(answer) < limit {
			answer = append(answer, r.only(flags["--json"]))
		}
	}
	text, err := json.Marshal(answer)
	return string(text) + "\n", err
}

// view is gh pr view.
func view(dir string, flags map[string]string, args []string) (string, error) {
	all, err := load(dir)
	if err != nil {
		return "", err
	}
	for _, r := range all {
		if URL(r.Number) == args[0] {
			text, err := json.Marshal(r.only(flags["--json"]))
			return string(text) + "\n", err
		}
	}
	return "", fail("GraphQL: Could not resolve to a PullRequest with the number of 0. (repository.pullRequest)")
}

// only returns some fields of a pull request, as gh writes them.
func (r Request) only(names string) map[string]any {
	comments := []map[string]any{}
	for _, c := range r.Remarks {
		comments = append(comments, map[string]any{"author": map[string]any{"login": c.By}, "body": c.Text,
			"createdAt": c.At.UTC()})
	}
	all := map[string]any{
		"url": URL(r.Number), "number": r.Number, "state": r.State, "headRefName": r.Head, "baseRefName": r.Base,
		"headRefOid": r.Oid, "isCrossRepository": r.Cross, "mergeCommit": nil, "comments": comments,
		"reviews": []any{},
	}
	if r.Merge != "" {
		all["mergeCommit"] = map[string]any{"oid": r.Merge}
	}
	some := map[string]any{}
	for name := range strings.SplitSeq(names, ",") {
		value, ok := all[name]
		if !ok {
			value = "ghtest: not implemented"
		}
		some[name] = value
	}
	return some
}

// create is gh pr create.
func create(dir string, flags map[string]string, _ []string) (string, error) {
	if flags["--title"] == "" || flags["--body-file"] != "-" {
		return "", fail("must provide `--title` and `--body` (or `--fill`) when not running interactively")
	}
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		return "", err
	}
	if err := hold(dir, "before"); err != nil {
		return "", err
	}
	r := Request{Head: flags["--head"], Base: flags["--base"], Title: flags["--title"], Body: string(body),
		Draft: flags["--draft"] != "", State: "OPEN"}
	git := func(args ...string) (string, error) { return gittest.Try(filepath.Join(dir, bare), args...) }
	if _, err := git("rev-parse", "--verify", "-q", "refs/heads/"+r.Head); err != nil {
		return "", fail("pull request create failed: GraphQL: Head sha can't be blank, Base sha can't be blank, "+
			"No commits between %s and %s, Head ref must be a branch (createPullRequest)", r.Base, r.Head)
	}
	if n, err := git("rev-list", "--count", r.Base+".."+r.Head); err != nil || n == "0" {
		return "", fail("pull request create failed: GraphQL: No commits between %s and %s (createPullRequest)", r.Base,
			r.Head)
	}
	exists := ""
	err = update(dir, func(all []Request) []Request {
		for _, o := range all {
			if o.State == "OPEN" && o.Head == r.Head && o.Base == r.Base && !o.Cross {
				exists = URL(o.Number)
				return all
			}
		}
		r.Number = len(all) + 1
		return append(all, r)
	})
	switch {
	case err != nil:
		return "", err
	case exists != "":
		return "", fail("a pull request for branch %q into branch %q already exists:\n%s", r.Head, r.Base, exists)
	}
	fmt.Fprintf(os.Stderr, "\nCreating pull request for %s into %s in %s\n\n", r.Head, r.Base, Repository)
	return URL(r.Number) + "\n", hold(dir, "after")
}

// hold hangs, if it is told to, and fails then.
func hold(dir, when string) error {
	file, err := os.Open(filepath.Join(dir, "hold-"+when))
	if err != nil {
		return nil
	}
	defer file.Close()
	_, _ = io.ReadAll(file) // until the test closes it
	return fail("ghtest: held")
}

// update changes the pull requests.
func update(dir string, do func([]Request) []Request) error {
	lock, err := filelock.Wait(context.Background(), filepath.Join(dir, "lock"), filelock.Exclusive)
	if err != nil {
		return err
	}
	defer lock.Close()
	all, err := load(dir)
	if err != nil {
		return err
	}
	text, err := json.Marshal(do(all))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, database)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
