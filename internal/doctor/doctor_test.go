package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/store/sqlite"
)

const file = `[project]
name = "t"

[[agent]]
name = "a"
command = ["sleep", "1"]
`

// levels returns the levels of the findings by check.
func levels(t *testing.T, config string, fix bool) map[string]string {
	t.Helper()
	found, err := Check(t.Context(), config, fix)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, f := range found {
		if all[f.Check] != LevelProblem {
			all[f.Check] = f.Level
		}
	}
	return all
}

func TestFile(t *testing.T) {
	config := filepath.Join(t.TempDir(), "coppice.toml")
	for content, want := range map[string]string{file: LevelOK, "[": LevelProblem} {
		if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		all := levels(t, config, false)
		if all["file"] != want || all["daemon"] != LevelOK || all["store"] != LevelOK || all["agents"] != LevelOK {
			t.Errorf("%.10q: %v, want file: %s", content, all, want)
		}
	}
}

// A process that holds the lock but does not answer is a problem.
func TestSilentDaemon(t *testing.T) {
	config := filepath.Join(t.TempDir(), "coppice.toml")
	if err := os.WriteFile(config, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := project.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := p.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if all := levels(t, config, false); all["daemon"] != LevelProblem {
		t.Errorf("%v", all)
	}
}

// A damaged store is reported, and repaired on request.
func TestDamagedStore(t *testing.T) {
	config := filepath.Join(t.TempDir(), "coppice.toml")
	if err := os.WriteFile(config, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := project.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), p.Database())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.Database(), []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		fix  bool
		want string
	}{{false, LevelProblem}, {true, LevelFixed}, {false, LevelOK}} {
		if all := levels(t, config, step.fix); all["store"] != step.want {
			t.Errorf("fix %v: %v, want %s", step.fix, all, step.want)
		}
	}
}
