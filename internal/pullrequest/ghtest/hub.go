// Package ghtest stands in for GitHub in tests: a bare repository that git reaches as if by ssh, and a program gh on
// it. The program knows only the commands and flags that are used, with their meaning in the manual of gh 2.46, and
// refuses everything else.
package ghtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/git/gittest"
)

// Where a Hub is said to be.
const (
	Host       = "github.example"
	Repository = "acme/shop"
)

// Variable is set in the environment of a program that has to call Main with its value and its arguments.
const Variable = "COPPICE_TEST_GH"

// Hub is a GitHub with one repository.
type Hub struct {
	testing.TB
	Dir string // of its files
	Bin string // a directory for PATH, with gh
}

// Files of a Hub.
const (
	bare     = Repository + ".git"
	database = "requests.json"
)

// Request is a pull request.
type Request struct {
	Number      int
	Head, Base  string
	Title, Body string
	Draft       bool
	State       string // OPEN, CLOSED or MERGED
	Oid         string // the last commit of its branch
	Merge       string // the commit that has merged it
	Cross       bool   // it comes from another repository
	Remarks     []Remark
}

// Remark is a comment.
type Remark struct {
	By, Text string
	At       time.Time
}

// New returns a Hub with the branch main of the repository in dir, and makes it the remote origin of that.
func New(t testing.TB, dir string) *Hub {
	t.Helper()
	h := &Hub{TB: t, Dir: t.TempDir()}
	h.Bin = filepath.Join(h.Dir, "bin")
	self, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(h.Bin, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	exectest.Write(t, filepath.Join(h.Bin, "gh"),
		fmt.Sprintf("#!/bin/sh\n%s='%s' GORACE=atexit_sleep_ms=0 exec '%s' \"$@\"\n", Variable, h.Dir, self))
	ssh := filepath.Join(h.Dir, "ssh")
	exectest.Write(t, ssh, fmt.Sprintf(`#!/bin/sh
if [ -e '%s/fail-ssh' ]; then cat '%[1]s/fail-ssh' >&2; exit 255; fi
[ "$1" = git@%s ] || exit 64
shift
case $* in git-receive-pack*) [ ! -e '%[1]s/before-push' ] || (cd '%[1]s/%[3]s' && . '%[1]s/before-push') ;; esac
cd '%[1]s' && eval "$*"
`, h.Dir, Host, bare))
	gittest.Run(t, dir, "clone", "-q", "--bare", "--single-branch", "--branch", "main", ".", filepath.Join(h.Dir, bare))
	gittest.Run(t, dir, "remote", "add", "origin", "git@"+Host+":"+bare)
	gittest.Run(t, dir, "config", "core.sshCommand", ssh)
	gittest.Run(t, dir, "config", "ssh.variant", "simple")
	return h
}

// Git runs git in the bare repository.
func (h *Hub) Git(args ...string) string {
	h.Helper()
	return gittest.Run(h, filepath.Join(h.Dir, bare), args...)
}

// URL returns the URL of a pull request.
func URL(number int) string { return fmt.Sprintf("https://%s/%s/pull/%d", Host, Repository, number) }

// Requests returns all pull requests, the oldest first.
func (h *Hub) Requests() []Request {
	h.Helper()
	all, err := load(h.Dir)
	if err != nil {
		h.Fatal(err)
	}
	return all
}

// change changes a pull request.
func (h *Hub) change(number int, do func(*Request)) {
	h.Helper()
	if err := update(h.Dir, func(all []Request) []Request {
		do(&all[number-1])
		return all
	}); err != nil {
		h.Fatal(err)
	}
}

// Merge merges a pull request as one commit, deletes its branch, and returns the commit.
func (h *Hub) Merge(number int) (commit string) {
	h.Helper()
	h.change(number, func(r *Request) {
		r.Oid = h.Git("rev-parse", "refs/heads/"+r.Head)
		tree := h.Git("merge-tree", "--write-tree", r.Base, r.Oid)
		commit = h.Git("-c", "user.name=hub", "-c", "user.email=hub@"+Host, "commit-tree", "-p", r.Base, "-m", r.Title,
			tree)
		h.Git("update-ref", "refs/heads/"+r.Base, commit)
		h.Git("update-ref", "-d", "refs/heads/"+r.Head)
		r.State, r.Merge = "MERGED", commit
	})
	return commit
}

// Close closes a pull request without a merge, with a comment.
func (h *Hub) Close(number int, by, text string) {
	h.Helper()
	h.change(number, func(r *Request) {
		r.Oid = h.Git("rev-parse", "refs/heads/"+r.Head)
		r.State = "CLOSED"
		r.Remarks = append(r.Remarks, Remark{by, text, time.Now()})
	})
}

// Add adds a pull request that someone else has made.
func (h *Hub) Add(r Request) {
	h.Helper()
	if err := update(h.Dir, func(all []Request) []Request {
		r.Number = len(all) + 1
		return append(all, r)
	}); err != nil {
		h.Fatal(err)
	}
}

// Break makes a command fail: "ssh", "list", "create" or "view", by what it writes to standard error. Commands of gh
// exit with a code; ssh with 255. An empty text ends that.
func (h *Hub) Break(command, text string, code int) {
	h.Helper()
	path := filepath.Join(h.Dir, "fail-"+command)
	if text == "" {
		os.Remove(path)
		return
	}
	if command != "ssh" {
		text = fmt.Sprintf("%d %s", code, text)
	}
	gittest.Write(h, path, text+"\n")
}

// Print makes a command of gh print a text in place of its answer.
func (h *Hub) Print(command, text string) {
	h.Helper()
	gittest.Write(h, filepath.Join(h.Dir, "print-"+command), text)
}

// BeforePush runs a shell script in the bare repository at the beginning of each push.
func (h *Hub) BeforePush(script string) {
	h.Helper()
	gittest.Write(h, filepath.Join(h.Dir, "before-push"), script+"\n")
}

// Hold makes "create" hang, before or after it has made the pull request. The next one does not.
func (h *Hub) Hold(when string) {
	h.Helper()
	if err := syscall.Mkfifo(filepath.Join(h.Dir, "hold-"+when), 0o600); err != nil {
		h.Fatal(err)
	}
}

// AwaitHeld waits until "create" hangs, and calls do. Then the hanging process fails.
func (h *Hub) AwaitHeld(when string, do func()) {
	h.Helper()
	path := filepath.Join(h.Dir, "hold-"+when)
	file, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		h.Fatal(err)
	}
	defer file.Close()
	os.Remove(path)
	do()
}

// load reads the pull requests.
func load(dir string) (all []Request, err error) {
	text, err := os.ReadFile(filepath.Join(dir, database))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	for i := range all {
		if all[i].State == "OPEN" && !all[i].Cross {
			oid, _ := gittest.Try(filepath.Join(dir, bare), "rev-parse", "--verify", "-q", "refs/heads/"+all[i].Head)
			all[i].Oid = strings.TrimSpace(oid)
		}
	}
	return all, err
}
