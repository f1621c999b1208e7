package api

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// permissionError returns the error for a user who may not open the socket of a project. If the
// project belongs to another user, it names that user.
func permissionError(socket string, uid int, err error) error {
	text := fmt.Sprintf("the daemon cannot be reached: %v", err)
	if info, err := os.Stat(filepath.Dir(socket)); err == nil {
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != uid {
			text = fmt.Sprintf("this project belongs to user %s, not to user %s; run coppice as %[1]s, or "+
				"in a project of your own", userName(int(owner.Uid)), userName(uid))
		}
	}
	return NewError(ErrUnauthorized, text)
}

// userName returns the name of a user, or the number of a user without one.
func userName(uid int) string {
	id := strconv.Itoa(uid)
	u, err := user.LookupId(id)
	if err != nil {
		return id
	}
	return u.Username
}
