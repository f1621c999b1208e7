package trigger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/aidefile"
	"github.com/coppice-dev/coppice/internal/aidefile/runner"
	"github.com/coppice-dev/coppice/supervisor"
)

// Launch returns the command of an agent with an Aidefile, and additions to its environment: the
// secrets in the environment of the daemon.
func (m *Manager) Launch(path string, file *aidefile.Agent) (argv, env []string) {
	for _, key := range file.File.Vault {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	return runner.Argv("/proc/self/exe", m.requestFile(path)), env
}

// writeRequest writes the request of the run that begins.
func (m *Manager) writeRequest(path string, a *agent) error {
	if m.Dir == "" {
		return nil
	}
	a.mu.Lock()
	q := a.request
	q.Aidefile, q.Settings = a.file.Path, a.file.Settings
	a.mu.Unlock()
	if err := m.history(path, &q); err != nil {
		return &supervisor.RetryError{At: time.Now().Add(countAgain), Err: err}
	}
	file := m.requestFile(path)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := q.Write(file); err != nil {
		return err
	}
	return runner.RemoveRecords(file) // they are of the run before
}

// requestFile returns the file of an agent's request.
func (m *Manager) requestFile(path string) string {
	return filepath.Join(m.DirOf(path), runner.RequestName)
}

// DirOf returns the directory of the files of an agent's runs.
func (m *Manager) DirOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(m.Dir, fmt.Sprintf("%.40s-%s", readableName(path), hex.EncodeToString(sum[:6])))
}

// RemoveFiles removes the files of the runs of an agent.
func (m *Manager) RemoveFiles(path string) {
	if m.Dir == "" {
		return
	}
	if err := os.RemoveAll(filepath.Dir(m.requestFile(path))); err != nil {
		m.Logger.Warn("cannot remove the files of an agent's runs", "path", path, "error", err)
	}
}

// readableName returns a file name by which people recognize a path.
func readableName(path string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && r != '/' && r > ' ' && r != 0x7f {
			return r
		}
		return '_'
	}, path[strings.LastIndexByte(path, '/')+1:])
}
