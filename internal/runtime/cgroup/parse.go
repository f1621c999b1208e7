package cgroup

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// ownPath returns the place of a process in the unified hierarchy, from /proc/PID/cgroup.
func ownPath(text string) (string, error) {
	for line := range strings.Lines(text) {
		p, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !ok {
			continue
		}
		switch {
		case strings.HasSuffix(p, " (deleted)"):
			return "", fmt.Errorf("control group %q was removed", p)
		case !strings.HasPrefix(p, "/"), p == "/..", strings.HasPrefix(p, "/../"):
			return "", fmt.Errorf("control group %q is not visible here", p)
		}
		return path.Clean(p), nil
	}
	return "", fmt.Errorf("not in a control group of version 2")
}

// mountOf finds, in the text of /proc/PID/mountinfo, the directory of a path of the unified
// hierarchy.
func mountOf(text, own string) (string, error) {
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields := strings.Split(before, " ")
		if fstype, _, _ := strings.Cut(after, " "); !ok || fstype != "cgroup2" || len(fields) < 6 {
			continue
		}
		root, point := unescape(fields[3]), unescape(fields[4])
		if root == own || root == "/" {
			root = strings.TrimSuffix(root, "/")
		} else if !strings.HasPrefix(own, root+"/") {
			continue
		}
		if !path.IsAbs(point) || strings.HasPrefix(root, "/..") {
			continue
		}
		return path.Join(point, strings.TrimPrefix(own, root)), nil
	}
	return "", fmt.Errorf("control group %s: no file system of type cgroup2 shows it", own)
}

// unescape replaces the escapes of blanks, tabs, newlines and backslashes in mountinfo: a
// backslash and three octal digits.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// value returns a number of a file with lines "key number".
func value(text, key string) (uint64, error) {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, key+" "); ok {
			return strconv.ParseUint(strings.TrimSpace(v), 10, 64)
		}
	}
	return 0, fmt.Errorf("no value of %s", key)
}
