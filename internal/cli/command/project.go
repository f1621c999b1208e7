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

// ConfigFlag adds --file, which names the configuration.
func ConfigFlag(cmd *cobra.Command, path *string) { configFlagShort(cmd, path, "f") }

// configFlagShort adds --file with this short form, or none.
func configFlagShort(cmd *cobra.Command, path *string, short string) {
	cmd.Flags().StringVarP(path, "file", short, "",
		"the `FILE` of the project, or its directory (default: the one here or above)")
	cmd.MarkFlagFilename("file", "toml")
}

// FindFleet returns the coppice.toml of a command as FindConfig does, but a grove.toml is an error.
func FindFleet(flag string) (string, error) {
	path, err := FindConfig(flag)
	if err == nil && grove.Is(path) {
		err = Exitf(ExitConfig, "this project has a %s and no coppice.toml; all of its settings "+
			"are in that file, see docs/grove.md", filepath.Base(path))
	}
	return path, err
}

// nearestConfig returns the coppice.toml in a directory or above it, or a nearer grove.toml, whose
// program is then the whole fleet.
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

// FindConfig returns the configuration of a command. The flag names the file or its directory; by
// default it is in the current directory or above.
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
	// Errors get a short path if the file is in the directory itself.
	if e == nil && filepath.Dir(path) == absolute {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path, nil
}

// IsDir reports whether path is a directory.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}
