package scaffold

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// maxRead bounds what is read of a file, in bytes.
const maxRead = 1 << 20

// findTests returns the command that runs the tests of the repository in a directory; empty if no file there tells.
func findTests(dir string) string {
	for _, known := range []struct {
		file, command string
		has           func(text []byte) bool // nil: the file is enough
	}{
		{"GNUmakefile", "make test", hasTarget},
		{"makefile", "make test", hasTarget},
		{"Makefile", "make test", hasTarget},
		{"go.mod", "go test ./...", nil},
		{"package.json", "npm test", hasScript},
		{"Cargo.toml", "cargo test", nil},
		{"pyproject.toml", "pytest", nil},
	} {
		text, ok := read(filepath.Join(dir, known.file))
		if ok && (known.has == nil || known.has(text)) {
			return known.command
		}
	}
	return ""
}

// read returns the beginning of a regular file.
func read(path string) (text []byte, ok bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, maxRead))
	return text, err == nil
}

// hasTarget reports whether a makefile has a target "test".
func hasTarget(makefile []byte) bool {
	return regexp.MustCompile(`(?m)^test[ \t]*:([^=]|$)`).Match(makefile)
}

// hasScript reports whether a package.json has a script "test" other than the one that npm init writes, which fails.
func hasScript(text []byte) bool {
	var p struct {
		Scripts struct{ Test string }
	}
	return json.Unmarshal(text, &p) == nil && p.Scripts.Test != "" &&
		!strings.Contains(p.Scripts.Test, "no test specified")
}
