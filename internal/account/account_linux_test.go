package account

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFind(t *testing.T) {
	root, err := Find("root", "")
	if err != nil || root.UID != 0 || root.GID != 0 || root.Home == "" || root.Environ()["HOME"] != root.Home {
		t.Errorf("root: %+v, %v", root, err)
	}
	if byNumber, err := Find("0", ""); err != nil || byNumber.Name != "root" {
		t.Errorf("0: %+v, %v", byNumber, err)
	}
	free, err := Find("61234", "")
	if err != nil || free.UID != 61234 || free.GID != 61234 || free.Home != "/" || len(free.Groups) != 0 ||
		free.Name != "61234" {
		t.Errorf("a free number: %+v, %v", free, err)
	}
	if other, err := Find("61234", "61235"); err != nil || other.GID != 61235 {
		t.Errorf("with a group: %+v, %v", other, err)
	}
	for _, bad := range [][2]string{
		{"no such user", ""}, {"-1", ""}, {"4294967295", ""}, {"4294967296", ""}, {"root", "no such group"}, {"", ""},
	} {
		if a, err := Find(bad[0], bad[1]); err == nil {
			t.Errorf("%q: %+v", bad, a)
		}
	}
}

func TestShellOf(t *testing.T) {
	if got := shellOf("root"); !filepath.IsAbs(got) {
		t.Errorf("root: %q", got)
	}
	if got := shellOf("nobody"); got != "" {
		t.Errorf("nobody: %q", got)
	}
}

// Errors name the directory on the path, or the file, that cannot be accessed.
func TestReach(t *testing.T) {
	const none = 1 << 30
	allowed := func(a Account, mode fs.FileMode, owner, group, want uint32) bool {
		return a.allowed(&syscall.Stat_t{Uid: owner, Gid: group}, mode, want)
	}
	a := Account{Name: "a", UID: 7, GID: 8, Groups: []uint32{9}}
	for _, c := range []struct {
		mode         fs.FileMode
		owner, group uint32
		want         uint32
		ok           bool
	}{
		{0o700, 7, none, Execute, true}, {0o700, none, 8, Execute, false}, {0o710, none, 8, Execute, true},
		{0o710, none, 9, Execute, true}, {0o711, none, none, Execute, true}, {0o710, none, none, Execute, false},
		{0o077, 7, 8, Execute, false}, {0o707, none, 8, Execute, false}, {0o744, none, none, Read, true},
		{0o744, none, none, Execute, false}, {0o755, none, none, Read | Execute, true},
	} {
		if got := allowed(a, c.mode, c.owner, c.group, c.want); got != c.ok {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if !allowed(Account{}, 0, none, none, Execute) {
		t.Error("root is kept out")
	}

	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err == nil && info.Mode()&0o001 == 0 {
			if err := os.Chmod(d, 0o711); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Reach(filepath.Join(closed, "below"), Execute); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{closed, filepath.Join(closed, "below")} {
		err := a.Reach(path, Execute)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "user a cannot enter "+closed+" (mode 0700") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Files with an access control list count as accessible.
func TestReachWithACL(t *testing.T) {
	dir := t.TempDir()
	entry := func(tag, perm uint16, id uint32) []byte {
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, tag), perm), id)
	}
	const none = 1<<32 - 1
	list := slices.Concat([]byte{2, 0, 0, 0}, entry(1, 7, none), entry(2, 5, 7), entry(4, 0, none),
		entry(0x10, 5, none), entry(0x20, 0, none))
	if err := unix.Setxattr(dir, "system.posix_acl_access", list, 0); err != nil {
		t.Skipf("this file system has no access control lists: %v", err)
	}
	if !hasACL(dir) || hasACL(filepath.Dir(dir)) {
		t.Errorf("list: %v, without: %v", hasACL(dir), hasACL(filepath.Dir(dir)))
	}
}

func TestMay(t *testing.T) {
	all := "Name:\tcoppice\nCapPrm:\t0\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n"
	for name, c := range map[string]struct {
		uid    int
		status string
		want   []string
	}{
		"root":        {0, all, nil},
		"a user":      {1000, all, []string{"user 1000"}},
		"a container": {0, strings.Replace(all, "000001ffffffffff", "00000000a80425fb", 1), []string{"CAP_SYS_PTRACE"}},
		"nothing":     {0, strings.Replace(all, "000001ffffffffff", "0", 1), []string{"CAP_SETUID, CAP_SETGID", "CAP_KILL"}},
		"unreadable":  {0, "x", []string{"does not say"}},
	} {
		err := may(c.uid, c.status)
		missing := func(part string) bool { return !strings.Contains(err.Error(), part) }
		if (err == nil) != (c.want == nil) || slices.ContainsFunc(c.want, missing) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
