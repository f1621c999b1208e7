package spec

import (
	"strconv"
	"strings"
)

// MaxFiles is how many Files an agent may have.
const MaxFiles = 100

// checkFiles checks the names of the files that an agent reads. Whether they are
// there is no matter of its declaration: they may come and go.
func (a *assembly) checkFiles(i int, files []string) {
	if len(files) > MaxFiles {
		a.problem(i, []string{"files"}, "name a file that changes with the others", "files names %d files, expected at most %d", len(files), MaxFiles)
	}
	seen := make(map[string]bool, len(files))
	for n, file := range files {
		at := []string{"files", strconv.Itoa(n)}
		switch {
		case file == "":
			a.problem(i, at, "", "the file has no name, expected a path")
		case strings.ContainsRune(file, 0):
			a.problem(i, at, "", "the file contains a zero byte, expected a path")
		case seen[file]:
			a.problem(i, at, "remove one of the two", "the file %s is listed twice, expected once", Quote(file))
		}
		seen[file] = true
	}
}
