package spec

import (
	"slices"
	"strconv"
	"strings"
)

// MaxFiles is the largest number of Files of an agent, and of its EnvFiles.
const MaxFiles = 100

// Watched returns the files whose changes restart the agent: Files and EnvFiles.
func (a *Agent) Watched() []string {
	if len(a.EnvFiles) == 0 {
		return a.Files
	}
	all := slices.Clone(a.Files)
	for _, file := range a.EnvFiles {
		if !slices.Contains(all, file) {
			all = append(all, file)
		}
	}
	return all
}

// WatchedFiles returns Watched as a set, with true for environment files.
func (a *Agent) WatchedFiles() map[string]bool {
	files := make(map[string]bool)
	for _, file := range a.Watched() {
		files[file] = slices.Contains(a.EnvFiles, file)
	}
	return files
}

// checkFiles checks the names of the files that an agent reads. The files need not exist.
func (c checker) checkFiles(key string, files []string) {
	if len(files) > MaxFiles {
		c.problem([]string{key}, "name a file that changes with the others",
			"%s names %d files, expected at most %d", key, len(files), MaxFiles)
	}
	seen := make(map[string]bool, len(files))
	for n, file := range files {
		at := []string{key, strconv.Itoa(n)}
		switch {
		case file == "":
			c.problem(at, "", "the file has no name, expected a path")
		case strings.ContainsRune(file, 0):
			c.problem(at, "", "the file contains a zero byte, expected a path")
		case seen[file]:
			c.problem(at, "remove one of the two", "the file %s is listed twice, expected once", Quote(file))
		}
		seen[file] = true
	}
}
