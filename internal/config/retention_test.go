package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
)

func TestRetention(t *testing.T) {
	for text, c := range map[string]struct {
		age   time.Duration
		bytes int64
		err   string
	}{
		"":                            {spec.DefaultEventAge, spec.DefaultEventBytes, ""},
		`events_max_age = "72h"`:      {72 * time.Hour, spec.DefaultEventBytes, ""},
		`events_max_age = "never"`:    {0, spec.DefaultEventBytes, ""},
		`events_max_size = "2GiB"`:    {spec.DefaultEventAge, 2 << 30, ""},
		`events_max_age = "0s"`:       {err: "events_max_age is"},
		`events_max_size = "1000KiB"`: {err: "events_max_size is 1000KiB, expected at least 1 MiB"},
		`events_max_size = "much"`:    {err: "events_max_size is"},
		`events_max_sice = "2GiB"`:    {err: "events_max_size"},
	} {
		name := filepath.Join(t.TempDir(), "coppice.toml")
		file := "[persistence]\n" + text + "\n[[agent]]\nname = \"a\"\ncommand = [\"sleep\", \"1000\"]\n"
		if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		tree, err := Load(name)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if age, bytes := tree.Retention.Bounds(); age != c.age || bytes != c.bytes {
			t.Errorf("%s: %v and %d bytes", text, age, bytes)
		}
	}
}
