package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/config/grove"
)

// ConfigFlag adds the flag that names the file.
func ConfigFlag(cmd *cobra.Command, path *string) { configFlagShort(cmd, path, "f") }

// configFlagShort adds the flag with another short form, or none.
func configFlagShort(cmd *cobra.Command, path *string, short string) {
	cmd.Flags().StringVarP(path, "file", short, "",
		"the `FILE` of the project, or its directory (default: the one here or above)")
	cmd.MarkFlagFilename("file", "toml")
}

// FindFleet returns the coppice.toml that a command is about, as FindConfig does; a grove.toml is an error.
func FindFleet(flag string) (string, error) {
	path, err := FindConfig(flag)
	if err == nil && grove.Is(path) {
		err = Exitf(ExitConfig, "this project has a %s and no coppice.toml; all of its settings "+
			"are in that file, see docs/grove.md", filepath.Base(path))
	}
	return path, err
}

// nearestConfig is the coppice.toml in a directory or above, or a grove.toml that is
// nearer: the program of that project is then the whole fleet.
func nearestConfig(dir string) (string, error) {
	path, err := config.Find(dir)
	grove, e := grove.Find(dir)
	switch {
	case e == nil && (errors.Is(err, fs.ErrNotExist) || err == nil &&
		len(filepath.Dir(grove)) > len(filepath.Dir(path))):
		return grove, nil
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(e, fs.ErrNotExist):
		return "", e
	}
	return path, err
}

// FindConfig returns the file that a command is about. The flag names it, or the
// directory that it is in.
func FindConfig(flag string) (string, error) {
	dir := "."
	if flag != "" {
		if !IsDir(flag) {
			return flag, nil
		}
		dir = flag
	}
	path, err := nearestConfig(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if alone, e := config.FindAidefile(dir); e == nil {
			path, err = alone, nil
		}
	}
	absolute, e := filepath.Abs(dir)
	if flag != "" && (errors.Is(err, fs.ErrNotExist) || err == nil && filepath.Dir(path) != absolute) {
		err = fmt.Errorf("no %s in %s: %w", config.FileName, flag, fs.ErrNotExist)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; write one with: coppice init", err)
	}
	if err != nil {
		return "", Exit(ExitConfig, err)
	}
	// The file in this very directory needs no long path in front of each error.
	if e == nil && filepath.Dir(path) == absolute {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path, nil
}

// IsDir reports whether there is a directory at a path.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}
