package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Paths of environment files are relative to the configuration, not to the directory of the
// agent. Errors name the place in both files.
func TestEnvFilesOfAgents(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("good.env", "A=1\nPATH=/usr/bin:/bin\n")
	put("bad.env", "A=1\nsecret\n")
	agent := "[[agent]]\nname = \"a\"\ncommand = [\"sleep\", \"1000\"]\ndir = \"/\"\n"
	put("coppice.toml", agent+"env_file = \"good.env\"\n")
	tree, err := Load(filepath.Join(dir, "coppice.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := tree.Root.Children[0].Agent.EnvFiles; !cmp.Equal(got, []string{filepath.Join(dir, "good.env")}) {
		t.Errorf("%q", got)
	}
	put("coppice.toml", agent+"env_file = [\"good.env\", \"bad.env\", \"none.env\"]\n")
	_, err = Load(filepath.Join(dir, "coppice.toml"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"coppice.toml:5:25: env_file: " + dir + "/bad.env:2:1: the variable \"secret\" without a =, expected KEY=VALUE; write secret= for an empty value",
		"coppice.toml:5:36: env_file: " + dir + "/none.env: no such file, expected variables as KEY=VALUE; create it, or remove it from env_file",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}
