// Package account looks up the users that agents run as, and checks which files they can access.
package account

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Account is a user with the groups of its processes.
type Account struct {
	Name   string   `json:"name"` // the number if the user has no name
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"` // supplementary
	Home   string   `json:"home"`
	Shell  string   `json:"shell,omitempty"` // empty if the user cannot log in
}

// Find looks up a user and a group, by name or number. Without a group, it uses the primary group of
// the user. A number without a user has the group of the same number, no other groups, and the home
// directory "/".
func Find(name, group string) (*Account, error) {
	a, err := find(name)
	if err != nil || group == "" {
		return a, err
	}
	g, err := user.LookupGroup(group)
	if err == nil {
		group = g.Gid
	}
	gid, e := number(group)
	if e != nil {
		return nil, fmt.Errorf("there is no group %q", group)
	}
	a.GID = gid
	return a, nil
}

func find(name string) (*Account, error) {
	u, err := user.Lookup(name)
	uid, e := number(name)
	if err != nil && e == nil {
		u, err = user.LookupId(name)
		if _, unknown := errors.AsType[user.UnknownUserIdError](err); unknown {
			return &Account{Name: name, UID: uid, GID: uid, Home: "/"}, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("there is no user %q", name)
	}
	a := &Account{Name: u.Username, Home: u.HomeDir, Shell: shellOf(u.Username)}
	gids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("the groups of user %s: %w", name, err)
	}
	var errs [2]error
	a.UID, errs[0] = number(u.Uid)
	a.GID, errs[1] = number(u.Gid)
	for _, g := range gids {
		gid, err := number(g)
		if err != nil {
			return nil, fmt.Errorf("the groups of user %s: %w", name, err)
		}
		a.Groups = append(a.Groups, gid)
	}
	return a, errors.Join(errs[:]...)
}

// number parses the number of a user or group. The largest one means "none" in system calls.
func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err == nil && n == 1<<32-1 {
		err = strconv.ErrRange
	}
	return uint32(n), err
}

// shellOf returns the shell of a user in /etc/passwd; "" if it prevents logins.
func shellOf(name string) string {
	data, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		f := strings.Split(line, ":")
		if len(f) == 7 && f[0] == name && !slices.Contains([]string{"nologin", "false"}, filepath.Base(f[6])) {
			return f[6]
		}
	}
	return ""
}

// Environ returns the variables that systemd.exec(5) sets for User=.
func (a *Account) Environ() map[string]string {
	env := map[string]string{"HOME": a.Home, "USER": a.Name, "LOGNAME": a.Name}
	if a.Shell != "" {
		env["SHELL"] = a.Shell
	}
	return env
}

// Permissions that Reach asks for, as in the mode of a file.
const (
	Execute = 1
	Read    = 4
)

// Reach returns an error if the account cannot access a file or directory: it names the directory on
// the path that the account may not search, or the missing permission. It checks only modes. A file
// with an access control list counts as accessible.
func (a *Account) Reach(path string, need uint32) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil // its caller reports it
	}
	for dir := "/"; ; {
		info, err := os.Stat(dir)
		if err != nil {
			return nil
		}
		last := dir == path
		want := uint32(Execute)
		if last {
			want = need
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && !a.allowed(st, info.Mode(), want) && !hasACL(dir) {
			what := "enter " + dir
			if last && !info.IsDir() {
				what = "execute " + dir
			}
			return fmt.Errorf("user %s cannot %s (mode %04o of user %d): %w",
				a.Name, what, info.Mode().Perm(), st.Uid, fs.ErrPermission)
		}
		if last {
			return nil
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
		next, _, _ := strings.Cut(rest, "/")
		dir = filepath.Join(dir, next)
	}
}

func (a *Account) allowed(st *syscall.Stat_t, mode fs.FileMode, want uint32) bool {
	perm := uint32(mode.Perm())
	switch {
	case a.UID == 0:
		return true
	case a.UID == st.Uid:
		perm >>= 6
	case a.GID == st.Gid || slices.Contains(a.Groups, st.Gid):
		perm >>= 3
	}
	return perm&want == want
}
