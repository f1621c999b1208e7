// Package secret reads secrets from where the settings of a project say that they are.
package secret

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/coppice-dev/coppice/internal/spec"
)

// MaxSize bounds a secret, in bytes.
const MaxSize = 16 << 10

// Read returns a secret without the line break at its end. Its error names the place, and has nothing of the secret.
func Read(from spec.Secret) (string, error) {
	where := "the variable " + from.Env
	text := os.Getenv(from.Env)
	if from.File != "" {
		where = "the file " + from.File
		data, err := readFile(from.File)
		if err != nil {
			return "", fmt.Errorf("reading a secret: %w", err)
		}
		text = string(data)
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "" && from.File == "":
		return "", fmt.Errorf("%s is not set in the environment of the daemon", where)
	case text == "":
		return "", fmt.Errorf("%s is empty, expected a secret", where)
	case len(text) > MaxSize || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("the secret in %s is not one line of at most %d bytes", where, MaxSize)
	}
	return text, nil
}

// readFile reads a small regular file, and follows links: the secrets of containers are links.
func readFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe must not block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}
