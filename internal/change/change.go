// Package change reads from git what was changed in a work tree since a commit, and checks it against
// rules. What an agent says about its change, and what it has set up in its repository to hide one, has no influence:
// attributes, ignore rules, index flags, filters, replaced objects and its configuration are not used.
package change

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Limits of a change. Read reports a larger one in Change.TooLarge, without its files.
const (
	MaxFiles = 10_000    // files that were changed
	MaxBytes = 256 << 20 // bytes of the changed files, before and after
)

// Change is the difference between a commit and a work tree.
type Change struct {
	// Base is the id of the commit.
	Base string `json:"base"`
	// Tree is the id of a tree object with the content of the work tree. It is in the object
	// database of the repository, so that a commit of it is exactly what was checked. Empty if
	// the change is too large.
	Tree string `json:"tree,omitempty"`
	// Files are the changed files, by path.
	Files []File `json:"files"`
	// Hidden are parts of the work tree that git cannot record, and that cannot be reviewed.
	Hidden []Hidden `json:"hidden,omitempty"`
	// TooLarge says which limit the change exceeds; empty if it exceeds none.
	TooLarge string `json:"too_large,omitempty"`

	source  source
	links   links    // symbolic links after the change
	present []string // paths after the change, sorted
}

// Status says what was done to a file.
type Status string

const (
	Added       Status = "added"
	Modified    Status = "modified" // content or mode
	Deleted     Status = "deleted"
	Renamed     Status = "renamed"      // from OldPath, possibly modified
	Copied      Status = "copied"       // added with the content of OldPath, which is still there
	TypeChanged Status = "type changed" // between file, symbolic link and submodule
)

// Mode is the mode of a file in git, in octal: one of the constants, or empty for no file.
type Mode string

const (
	Regular    Mode = "100644"
	Executable Mode = "100755"
	Symlink    Mode = "120000"
	Submodule  Mode = "160000"
)

// Side is a file before or after a change. Without a file, Mode is empty.
type Side struct {
	Mode  Mode   `json:"mode"`
	ID    string `json:"id"`    // of the blob, or the commit of a submodule
	Size  int64  `json:"size"`  // in bytes; of a symbolic link, the length of its target
	Lines int    `json:"lines"` // a last line without a newline counts
	// Binary means that there is a NUL in the first 8,000 bytes, as git decides it.
	Binary bool   `json:"binary,omitempty"`
	Target string `json:"target,omitempty"` // of a symbolic link
}

// File is a changed file. Paths are relative to the root of the work tree, with slashes. They may
// have any bytes except NUL; Quote makes them safe to show.
type File struct {
	Path    string `json:"path"`
	OldPath string `json:"old_path,omitempty"` // if renamed or copied
	Status  Status `json:"status"`
	Old     Side   `json:"old,omitzero"`
	New     Side   `json:"new,omitzero"`
	// Added and Deleted are lines, also of binary files. A renamed file counts the lines that
	// differ, a copied one all of them.
	Added   int `json:"added"`
	Deleted int `json:"deleted"`
}

// Paths returns the paths that a file occupies or has left. The source of a copy is not among them.
func (f File) Paths() []string {
	if f.Status == Renamed {
		return []string{f.OldPath, f.Path}
	}
	return []string{f.Path}
}

// Hidden is a part of a work tree that git cannot record.
type Hidden struct {
	Path string `json:"path"`
	What string `json:"what"`
}

// Totals counts changed files and lines.
type Totals struct {
	Files   int `json:"files"`
	Added   int `json:"added"`
	Deleted int `json:"deleted"`
}

// Totals returns the totals. A renamed file is one file.
func (c *Change) Totals() (t Totals) {
	for _, f := range c.Files {
		t.Files++
		t.Added += f.Added
		t.Deleted += f.Deleted
	}
	return t
}

// Quote returns a path as it is if that is safe to show and to tell apart, and otherwise quoted as in
// Go.
func Quote(path string) string {
	quoted := strconv.Quote(path)
	if plaintext.Line(path) == path && quoted == `"`+path+`"` && strings.TrimSpace(path) == path && path != "" {
		return path
	}
	return quoted
}

// tooLarge is an error that becomes Change.TooLarge.
type tooLarge string

func (e tooLarge) Error() string { return string(e) }

func tooManyFiles() error {
	return tooLarge(fmt.Sprintf("more than %s files", plaintext.Thousands(MaxFiles)))
}

func tooManyBytes() error {
	return tooLarge(fmt.Sprintf("more than %d MiB in changed files", MaxBytes>>20))
}
