package write

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/config"
	aidefileconfig "github.com/coppice-dev/coppice/internal/config/aidefile"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

func NewAdd(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "add DIR...",
		Short: "Add agents with an Aidefile to coppice.toml",
		Long: `Add agents with an Aidefile to the end of coppice.toml, which keeps its comments. A
missing coppice.toml is created here. Nothing is written unless the whole file is valid then. A
running daemon reloads the file.`,
		Example: `  coppice add agents/uptime agents/writer`,
		Args:    command.Some("the directory of an Aidefile is missing, such as agents/uptime"),
		RunE: func(_ *cobra.Command, dirs []string) error {
			path := file
			if command.IsDir(file) {
				path = filepath.Join(file, config.FileName)
			}
			if path == "" {
				found, err := config.Find(".")
				switch {
				case errors.Is(err, fs.ErrNotExist):
					found = config.FileName
				case err != nil:
					return command.Exit(command.ExitConfig, err)
				}
				path = found
				if here, err := os.Getwd(); err == nil && filepath.Dir(path) == here {
					path = filepath.Base(path)
				}
			}
			return addAidefiles(s, path, dirs)
		},
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	}
	command.ConfigFlag(cmd, &file)
	return cmd
}

// addAidefiles adds an agent table for each directory to the file at path, which may not exist yet.
func addAidefiles(s *command.Streams, path string, dirs []string) error {
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	isNew := err != nil
	project, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	listed, err := listedAidefiles(path, isNew)
	if err != nil {
		return command.Exitf(command.ExitConfig, "%w\nfix this first: coppice validate", err)
	}
	text := string(before)
	if isNew {
		text = "[project]\nname = " + toml.Quote(projectNameOf(project)) + "\n"
	}
	var names []string
	for _, dir := range dirs {
		aidefile, err := aidefileOf(dir)
		if err != nil {
			return err
		}
		f, err := aidefileconfig.Load(aidefile)
		if err != nil {
			return command.Exit(command.ExitConfig, err)
		}
		absolute, err := filepath.Abs(aidefile)
		if err != nil {
			return err
		}
		if name, ok := listed[absolute]; ok {
			return fmt.Errorf("%s is in %s already, as %s", dir, path, name)
		}
		listed[absolute] = f.Persona.Name
		written := filepath.Dir(absolute)
		if short, err := filepath.Rel(project, written); err == nil {
			written = short
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += "\n[[agent]]\naidefile = " + toml.Quote(written) + "\n"
		names = append(names, f.Persona.Name)
	}
	if err := replaceChecked(path, text, isNew); err != nil {
		return err
	}
	for _, name := range names {
		fmt.Fprintf(s.Out, "added %s to %s\n", name, path)
	}
	return nil
}

// aidefileOf returns the Aidefile that an argument names.
func aidefileOf(dir string) (string, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s does not exist, expected a directory with an Aidefile", dir)
	case err != nil:
		return "", err
	}
	if !info.IsDir() {
		if filepath.Base(dir) != aidefile.FileName {
			return "", fmt.Errorf("%s is not a directory, expected one with an Aidefile", dir)
		}
		return dir, nil
	}
	path := filepath.Join(dir, aidefile.FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s has no Aidefile; write one, it may be empty: touch %s", dir, path)
	}
	return path, nil
}

// listedAidefiles returns the Aidefiles in the configuration, with the names of their agents.
func listedAidefiles(path string, isNew bool) (map[string]string, error) {
	listed := map[string]string{}
	if isNew {
		return listed, nil
	}
	l, err := config.LoadUnchecked(path)
	if l.Tree == nil {
		// A file without agents is fine here, since some are about to be added.
		if bad, ok := errors.AsType[config.Errors](err); ok && len(bad) == 1 &&
			strings.HasPrefix(bad[0].Message, "nothing to run") {
			return listed, nil
		}
		return nil, err
	}
	for _, child := range l.Tree.All() {
		if child.Agent != nil && child.Agent.Aide != nil {
			listed[child.Agent.Aide.Path] = child.Agent.Name
		}
	}
	return listed, nil
}

// replaceChecked replaces a file if the new text is valid. It validates a draft in the same
// directory, because paths in the file are relative to it.
func replaceChecked(path, text string, isNew bool) error {
	mode := fs.FileMode(0o644)
	target := path
	if !isNew {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		info, err := os.Stat(real)
		if err != nil {
			return err
		}
		target, mode = real, info.Mode().Perm()
	}
	draft, err := os.CreateTemp(filepath.Dir(target), ".coppice-*.toml")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	_, err = draft.WriteString(text)
	if err := errors.Join(err, draft.Chmod(mode), draft.Close()); err != nil {
		return err
	}
	if _, err := config.LoadUnchecked(draft.Name()); err != nil {
		bad, _ := errors.AsType[config.Errors](err)
		for _, e := range bad {
			if e.File == draft.Name() {
				e.File = path
			}
		}
		return command.Exitf(command.ExitConfig, "nothing was added:\n%w", err)
	}
	return os.Rename(draft.Name(), target)
}

func projectNameOf(dir string) string {
	if name := filepath.Base(dir); spec.CheckName(name) == "" {
		return name
	}
	return "project"
}
