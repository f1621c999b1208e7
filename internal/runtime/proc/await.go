package proc

import (
	"path/filepath"
	"syscall"
)

// awaitProgram returns when the directory and the program of a command can be reached. That may take
// long, for example on a network file system. A fork waits for it, too, but then no other goroutine
// runs on its processor, which may be the only one. What is wrong with the program is left to the fork.
func awaitProgram(dir, file string) {
	if dir != "" {
		modeOf(dir)
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
	}
	if mode, err := modeOf(file); err != nil || mode&syscall.S_IFMT != syscall.S_IFREG {
		return
	}
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	var first [1]byte
	syscall.Read(fd, first[:])
}
