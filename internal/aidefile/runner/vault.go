package runner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// maxSecret bounds a secret, in bytes.
const maxSecret = 64 << 10

// secrets holds the secrets of a run.
type secrets struct {
	byName map[string]string
	hidden []hiddenLine // longest first
}

// hiddenLine is a line of the value of a secret.
type hiddenLine struct {
	text []byte
	name string // of the secret
}

// find reads the secrets from the environment or the directory vault.
func (s *secrets) find(names []string, vault string, env map[string]string) error {
	s.byName = map[string]string{}
	var missing []error
	for _, name := range names {
		value, ok := env[name]
		if !ok {
			var err error
			if value, err = readSecret(vault, name); err != nil {
				missing = append(missing, err)
				continue
			}
		}
		s.byName[name] = value
		s.hide(name, value)
	}
	slices.SortStableFunc(s.hidden, func(a, b hiddenLine) int { return cmp.Compare(len(b.text), len(a.text)) })
	return errors.Join(missing...)
}

func readSecret(vault, name string) (string, error) {
	path := filepath.Join(vault, name)
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the secret %s is missing: write it to %s, or set it in the environment of the daemon",
			name, path)
	case err != nil:
		return "", fmt.Errorf("the secret %s cannot be read: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", fmt.Errorf("the secret %s cannot be read: %w", name, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("the secret %s cannot be read: %s is no regular file", name, path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("the secret %s can be read by others: chmod 600 %s", name, path)
	case info.Size() > maxSecret:
		return "", fmt.Errorf("the secret %s has more than %d bytes", name, maxSecret)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret))
	if err != nil {
		return "", fmt.Errorf("the secret %s cannot be read: %w", name, err)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if value == "" || strings.ContainsRune(value, 0) {
		return "", fmt.Errorf("the secret %s cannot be used: %s is empty or no text", name, path)
	}
	return value, nil
}

// minHidden is the minimum length of a line of a secret that is redacted: shorter ones occur
// in every text.
const minHidden = 4

// hide adds the lines of a secret to those that are redacted, also as they are spelled in
// JSON, which the command lines of models print.
func (s *secrets) hide(name, value string) {
	for text := range strings.Lines(value) {
		text = strings.TrimSpace(text)
		for _, spelled := range []string{text, quoted(text)} {
			known := slices.ContainsFunc(s.hidden, func(h hiddenLine) bool { return string(h.text) == spelled })
			if len(spelled) >= minHidden && !known {
				s.hidden = append(s.hidden, hiddenLine{[]byte(spelled), name})
			}
		}
	}
}

// quoted returns a text as it is spelled within a string of JSON.
func quoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(text) != nil {
		return text
	}
	return b.String()[1 : b.Len()-len("\"\n")]
}

// redact replaces the secrets in a text.
func (s *secrets) redact(text string) string {
	return string(s.replace([]byte(text)))
}

func (s *secrets) replace(text []byte) []byte {
	for _, h := range s.hidden {
		if bytes.Contains(text, h.text) {
			text = bytes.ReplaceAll(text, h.text, []byte("["+h.name+"]"))
		}
	}
	return text
}

// longest returns the length of the longest secret.
func (s *secrets) longest() int {
	if len(s.hidden) == 0 {
		return 0
	}
	return len(s.hidden[0].text)
}

// writer returns a writer to w that redacts the secrets.
func (s *secrets) writer(w io.Writer) *redactor { return &redactor{s: s, w: w} }

// redactor writes text without the secrets. It holds text back that may be the beginning of
// a secret, until the line is complete or the text is too long.
type redactor struct {
	s       *secrets
	w       io.Writer
	mu      sync.Mutex
	pending []byte // not written yet
}

// Write never fails: a run continues without readers of its output.
func (r *redactor) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, p...)
	r.pass(r.ready())
	return len(p), nil
}

// ready returns how many pending bytes can be written without cutting a secret.
func (r *redactor) ready() int {
	if r.s.longest() == 0 {
		return len(r.pending)
	}
	end := bytes.LastIndexByte(r.pending, '\n') + 1
	if end == 0 && len(r.pending) > maxSecret+r.s.longest() {
		end = max(0, len(r.pending)-r.s.longest()+1)
		// A secret across the cut is kept for the next write.
		for _, h := range r.s.hidden {
			for from := max(0, end-len(h.text)+1); from < end; from++ {
				if bytes.HasPrefix(r.pending[from:], h.text) {
					end = from
				}
			}
		}
	}
	return end
}

func (r *redactor) pass(n int) {
	if n > 0 {
		r.w.Write(r.s.replace(r.pending[:n]))
		r.pending = append(r.pending[:0], r.pending[n:]...)
	}
}

func (r *redactor) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pass(len(r.pending))
}
