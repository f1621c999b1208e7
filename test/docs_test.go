package test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli"
)

// pages returns README.md and the pages of docs/, by name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	read := func(name string) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	read("README.md")
	if err := fs.WalkDir(os.DirFS(root), "docs", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			read(name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	fenced  = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	inline  = regexp.MustCompile("`(coppice [a-z-][^`\n]*)`")
	quoted  = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	another = regexp.MustCompile(`\s#|[|;&)>]`) // the rest is not part of the command
)

// commandsIn returns the coppice commands in a page, in code blocks and inline.
func commandsIn(page string) (all []string) {
	for _, block := range fenced.FindAllStringSubmatch(page, -1) {
		if block[1] != "sh" && block[1] != "console" && block[1] != "" {
			continue
		}
		for _, call := range regexp.MustCompile(`(?m)(?:^\s*(?:\$ )?|\$\(|! |&& )(coppice [a-z].*)$`).FindAllStringSubmatch(block[2], -1) {
			all = append(all, call[1])
		}
	}
	for _, call := range inline.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		all = append(all, call[1])
	}
	for i, call := range all {
		call = quoted.ReplaceAllString(call, "TEXT")
		if at := another.FindStringIndex(call); at != nil {
			call = call[:at[0]]
		}
		all[i] = call
	}
	return all
}

// Each command in a page exists, with each of its flags.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	seen := 0
	for name, page := range pages(t) {
		for _, call := range commandsIn(page) {
			words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(call))[1:]
			if i := slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, "=") && !strings.HasPrefix(w, "-") }); i > 2 {
				words = words[:i]
			}
			top := cli.NewCommand(nil, io.Discard, io.Discard)
			cmd, rest, err := top.Find(words)
			if len(words) > 0 && (words[0] == "shim" || words[0] == "guard") {
				continue // only the daemon calls it
			}
			if err != nil || cmd == top && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
				t.Errorf("%s: %q: there is no such command", name, call)
				continue
			}
			if cmd.HasSubCommands() && len(rest) > 0 && isUnknownCommand(cmd, rest[0]) {
				t.Errorf("%s: %q: there is no such command below %s", name, call, cmd.CommandPath())
			}
			cmd.InitDefaultHelpFlag()
			for _, w := range rest {
				flag, is := strings.CutPrefix(w, "--")
				flag, _, _ = strings.Cut(flag, "=")
				if is && flag != "" && cmd.Flags().Lookup(flag) == nil && cmd.InheritedFlags().Lookup(flag) == nil {
					t.Errorf("%s: %q: %s has no flag --%s", name, call, cmd.CommandPath(), flag)
				}
				if letter, is := strings.CutPrefix(w, "-"); is && len(letter) == 1 && letter != "-" && cmd.Flags().ShorthandLookup(letter) == nil {
					t.Errorf("%s: %q: %s has no flag -%s", name, call, cmd.CommandPath(), letter)
				}
			}
			seen++
		}
	}
	if seen < 200 {
		t.Errorf("only %d commands were found", seen)
	}
}

// isUnknownCommand reports whether a word looks like the name of a command below a group but is
// none.
func isUnknownCommand(cmd *cobra.Command, word string) bool {
	return regexp.MustCompile(`^[a-z-]+$`).MatchString(word) && !strings.HasPrefix(word, "-") &&
		!slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == word || c.HasAlias(word) })
}

// Each configuration file in a page is valid, except that commands and other parts may be missing.
func TestDocsFiles(t *testing.T) {
	t.Parallel()
	missing := regexp.MustCompile(`does not exist|nothing to run|is not in PATH|cannot be run|no such file|there is no user|may not change the user|no agent is called|there are no orders`)
	seen := 0
	for name, page := range pages(t) {
		for _, b := range fenced.FindAllStringSubmatch(page, -1) {
			if b[1] != "toml" {
				continue
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "coppice.toml")
			switch {
			case strings.Contains(b[2], "[persona]"):
				file = filepath.Join(dir, "Aidefile")
			case strings.HasPrefix(b[2], "# orders/"):
				write(t, file, "[project]\nname = \"t\"\n")
				file = filepath.Join(dir, "orders", "one.toml")
			case name == "docs/grove.md" || name == "docs/aidefile-reference.md":
				continue // their packages check them
			}
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, file, b[2])
			r := launch(t, dir, "validate")
			r.exit()
			for _, line := range r.err.lines() {
				if line != "" && !missing.MatchString(line) {
					t.Errorf("%s: %s\n%s", name, line, b[2])
				}
			}
			seen++
		}
	}
	if seen < 40 {
		t.Errorf("only %d files were found", seen)
	}
}
