package fakeagent

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/agentcli"
)

// home returns the directory in which a command line keeps its files: the value of a variable, or a directory of the
// user. It is always below the directory of the run: another one, such as the real home of the user, is replaced.
func (p *player) home(variable, name string) string {
	dir := p.env(variable)
	if dir == "" || variable == "" {
		dir = filepath.Join(p.env("HOME"), name)
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.cwd, dir)
	}
	if within(resolve(dir), resolve(p.set.Dir)) {
		return dir
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(p.set.Dir, "elsewhere", hex.EncodeToString(sum[:6]), name)
}

// within reports whether a path is below a directory.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

// resolve returns a path without symbolic links in the part of it that exists.
func resolve(path string) string {
	rest := ""
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if info, err := os.Lstat(at); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return "" // a link to nowhere: what is made through it is not known
		}
		if at == filepath.Dir(at) {
			return filepath.Clean(path)
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// append opens the file of the session, which may have earlier runs.
func (p *player) append(file string) (int, bool) {
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		if text, e := os.ReadFile(file); e == nil {
			s := agentcli.Stream{CLI: p.cli, Source: agentcli.FromSession}
			s.Write(text)
			s.Close()
			p.earlier = int(s.Report().Tokens() / MessageTokens)
		}
		p.session, err = os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	}
	if err != nil {
		p.say("fake " + string(p.cli) + ": cannot keep its session: " + err.Error())
		return 1, false
	}
	return 0, true
}

// isID reports whether text may be the id of a session, and part of a file name.
func isID(text string) bool {
	return text != "" && len(text) <= 100 &&
		!strings.ContainsFunc(text, func(r rune) bool { return !isWord(r) && r != '-' && r != '_' })
}

// isWord reports whether r is a letter or digit of ASCII.
func isWord(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' }

func firstMatch(pattern string) string {
	if all, err := filepath.Glob(pattern); err == nil && len(all) > 0 {
		return all[0]
	}
	return ""
}

// newestMatch returns the file that was changed last.
func newestMatch(pattern string) (newest string) {
	all, _ := filepath.Glob(pattern)
	var at int64
	for _, file := range all {
		if info, err := os.Stat(file); err == nil && (newest == "" || info.ModTime().UnixNano() > at) {
			newest, at = file, info.ModTime().UnixNano()
		}
	}
	return newest
}

// nameOf returns the base of a path without a prefix and a suffix; "" for an empty path.
func nameOf(path, prefix, suffix string) string {
	if path == "" {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), suffix), prefix)
}

// sessionIn returns the id of the session in a file of gemini.
func sessionIn(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	s := agentcli.Stream{CLI: agentcli.Gemini, Source: agentcli.FromSession}
	s.Write(text)
	s.Close()
	return s.Report().Session
}
