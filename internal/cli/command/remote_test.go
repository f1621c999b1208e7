package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Without a daemon there are records to read, and nothing to act with. While a daemon starts or stops, both wait.
func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "coppice.toml")
	if err := os.WriteFile(file, []byte("[[agent]]\nname = \"a\"\ncommand = \"true\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Remote{File: dir}
	const timeout = 50 * time.Millisecond
	calls := 0
	err := r.AskFor(t.Context(), timeout, func(ctx context.Context, c *api.Client) error {
		calls++
		_, err := status.Get.Call(ctx, c, api.None{})
		return err
	})
	if !errors.Is(err, api.ErrDown) || !strings.Contains(err.Error(), "start it with: coppice up -d") || calls < 2 {
		t.Errorf("%d calls: %v", calls, err)
	}

	look := func() (notes []string, seen status.Status, err error) {
		err = r.LookFor(t.Context(), timeout, func(note string) { notes = append(notes, note) },
			func(ctx context.Context, c *api.Client) (err error) {
				seen, err = status.Get.Call(ctx, c, api.None{})
				return err
			})
		return notes, seen, err
	}
	notes, seen, err := look()
	if err != nil || len(notes) != 1 || notes[0] != "no daemon is running here" || seen.Summary["stopped"] != 1 {
		t.Errorf("%q, %+v, %v", notes, seen, err)
	}

	p, err := project.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := p.Lock()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	notes, _, err = look()
	if !errors.Is(err, api.ErrDown) || !strings.Contains(err.Error(), "it is starting or stopping") || len(notes) > 0 {
		t.Errorf("while a process has the project: %q, %v", notes, err)
	}
	if took := time.Since(began); took < timeout {
		t.Errorf("it waited %v", took)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := look(); err != nil {
		t.Error(err)
	}
}
