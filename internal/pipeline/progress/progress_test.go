package progress

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestProgress(t *testing.T) {
	dir := t.TempDir()
	if p, err := Read(dir, 1); p != nil || err != nil {
		t.Errorf("without a file: %+v, %v", p, err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Progress{Incarnation: 2, Task: "shop-1", Attempt: 3, BeganAt: at, Since: at}
	for _, stage := range []string{"", "plan"} {
		want.Stage = stage
		if err := Write(dir, want); err != nil {
			t.Fatal(err)
		}
		got, err := Read(dir, 2)
		if d := cmp.Diff(&want, got, cmpopts.IgnoreUnexported(Progress{})); d != "" || err != nil {
			t.Errorf("%v %s", err, d)
		}
	}
	if text := want.String(); text != "plan: shop-1 (attempt 3)" {
		t.Errorf("%q", text)
	}
	if p, err := Read(dir, 3); p != nil || err != nil {
		t.Errorf("of another incarnation: %+v, %v", p, err)
	}
	for range 2 {
		if err := Remove(dir); err != nil {
			t.Error(err)
		}
	}
	if p, err := Read(dir, 2); p != nil || err != nil {
		t.Errorf("after it was removed: %+v, %v", p, err)
	}
}

// A file that somebody has damaged is an error with its name, and no progress.
func TestDamaged(t *testing.T) {
	for name, text := range map[string]string{
		"truncated": `{"incarnation":1,"task":"shop-1`,
		"huge":      `{"incarnation":1,"task":"` + strings.Repeat("x", maxFile) + `","attempt":1}`,
		"of others": `{"incarnation":-1,"task":"shop-1","attempt":1}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "progress.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := Read(dir, 1); p != nil || err == nil || !strings.Contains(err.Error(), "progress.json") {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	dir := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "progress.json")); err != nil {
		t.Fatal(err)
	}
	if p, err := Read(dir, 1); p != nil || err == nil {
		t.Errorf("a link: %+v, %v", p, err)
	}
	for _, text := range []string{`{}`, `{"incarnation":1,"attempt":1}`, `{"incarnation":1,"task":"x","attempt":-1}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "progress.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := Read(dir, 1); p != nil || err != nil {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
}
