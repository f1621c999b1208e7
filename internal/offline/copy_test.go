package offline

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/project"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/transfer"
)

// copyTo copies the store of a project, and calls progress.
func copyTo(ctx context.Context, config, from, to string, progress func(transfer.Progress)) (Copied, error) {
	return CopyStore(ctx, CopyOptions{
		File: config, From: from, To: to, Progress: progress, Logger: slog.New(slog.DiscardHandler),
	})
}

func ignore(transfer.Progress) {}

func TestCopyStore(t *testing.T) {
	config, p := newProject(t, file)
	keep(t, p, "original")
	path := filepath.Join(t.TempDir(), "copy.db")
	to := "sqlite:" + path

	// Nothing is left of a copy that was interrupted before it was verified.
	for _, stage := range []transfer.Stage{transfer.Copying, transfer.RereadingOriginal} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := copyTo(ctx, config, "sqlite", to, func(p transfer.Progress) {
			if p.Stage == stage {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted in stage %d: %v", stage, err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("interrupted in stage %d, the file is left: %v", stage, err)
		}
	}

	c, err := copyTo(t.Context(), config, "sqlite", to, ignore)
	if err != nil || c.Records != 1 || c.To.String() != to || c.From.String() != "sqlite:"+p.Database() {
		t.Fatalf("%+v, %v", c, err)
	}
	keep(t, p, "later")
	if _, err := copyTo(t.Context(), config, "sqlite", to, ignore); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("a second copy: %v", err)
	}
	if _, err := copyTo(t.Context(), config, to, "sqlite", ignore); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("a copy back: %v", err)
	}
	if got := keep(t, p, "later"); got != "later" {
		t.Errorf("the original is %q", got)
	}
	// Back into the project, whose store is gone.
	if err := os.RemoveAll(p.State); err != nil {
		t.Fatal(err)
	}
	if _, err := copyTo(t.Context(), config, to, "sqlite", ignore); err != nil {
		t.Fatal(err)
	}
	if got := keep(t, p, "x"); got != "original" {
		t.Errorf("%q was copied", got)
	}
}

func TestCopyStoreRefuses(t *testing.T) {
	config, p := newProject(t, file)
	keep(t, p, "original")
	path := filepath.Join(t.TempDir(), "copy.db")
	refused := func(says, from, to string) {
		t.Helper()
		if _, err := copyTo(t.Context(), config, from, to, ignore); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s to %s: %v, expected %q", from, to, err, says)
		}
		if found, _ := filepath.Glob(path + "*"); len(found) > 0 {
			t.Errorf("%s to %s makes %v", from, to, found)
		}
	}
	refused("both are the same store", "sqlite", "sqlite")
	refused("both are the same store", "sqlite", "sqlite:"+p.Database())
	refused("file does not exist", "sqlite:"+path, "sqlite")
	refused("no store", "sqlite", "memory")
	refused("no store", "redis://a:1", "sqlite:"+path)
	refused("nothing listens on", "etcd://127.0.0.1:1/p", "sqlite:"+path)
	refused("no such file or directory", "sqlite", "sqlite:"+filepath.Join(filepath.Dir(path), "missing", "copy.db"))
	lock, err := p.Lock()
	if err != nil {
		t.Fatal(err)
	}
	var locked *project.LockedError
	if _, err := copyTo(t.Context(), config, "sqlite", "sqlite:"+path, ignore); !errors.As(err, &locked) {
		t.Errorf("while a daemon runs: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("[project"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("coppice.toml", "sqlite", "sqlite:"+path)
}
