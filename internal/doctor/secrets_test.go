package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Secrets that the daemon will need are read; a missing variable may be one of another environment.
func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "coppice.toml")
	text := file + `
[[notify]]
name = "hook"
via = "webhook"
url_file = "hook.url"

[[notify]]
name = "chat"
via = "slack"
url_env = "DOCTOR_TEST_URL"

[traces]
endpoint = "http://127.0.0.1:4318"
headers_file = { Authorization = "key" }
`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(want map[string]string) {
		t.Helper()
		found, err := Check(t.Context(), config, false)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, f := range found {
			if f.Check == "notify" || f.Check == "traces" {
				of, _, _ := strings.Cut(f.Detail, ":")
				got[of] = f.Level
			}
			if strings.Contains(f.Detail, "s3cret") {
				t.Errorf("a secret is shown: %s", f.Detail)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%v, want %v", got, want)
		}
		for of, level := range want {
			if got[of] != level {
				t.Errorf("%s: %s, want %s", of, got[of], level)
			}
		}
	}
	check(map[string]string{"hook": LevelProblem, "chat": LevelWarning, "the header Authorization": LevelProblem})
	t.Setenv("DOCTOR_TEST_URL", "http://127.0.0.1/s3cret")
	for name, content := range map[string]string{"hook.url": "http://127.0.0.1/s3cret\n", "key": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check(map[string]string{"the header Authorization": LevelProblem})
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("Bearer s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{})
}
