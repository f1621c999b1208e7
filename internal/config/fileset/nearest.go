package fileset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Nearest returns the path of the file of the first of names that exists in
// dir or, if there is none, in the nearest directory above it.
func Nearest(dir string, names ...string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("looking for %s above %s: %w", names[0], dir, err)
	}
	for d := absolute; ; d = filepath.Dir(d) {
		for _, name := range names {
			path := filepath.Join(d, name)
			_, err := os.Stat(path)
			if err == nil {
				return path, nil
			}
			// What is there but cannot be seen must not be passed over for another project.
			if !errors.Is(err, fs.ErrNotExist) {
				return "", fmt.Errorf("looking for %s above %s: %w", name, dir, err)
			}
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no %s in %s or above it: %w", names[0], absolute, fs.ErrNotExist)
		}
	}
}
