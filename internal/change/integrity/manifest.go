package integrity

import (
	"encoding/json"
	"path"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/coppice-dev/coppice/internal/change"
)

// manifestKeys returns the keys of a file of a package manager that say how tests and checks are run, and
// what parses it. It returns nil for other files.
func manifestKeys(name string) (keys []string, parse func([]byte, any) error) {
	switch path.Base(name) {
	case "package.json", "composer.json":
		return []string{"scripts", "jest", "vitest", "mocha", "ava", "tap", "nyc", "c8", "husky", "lint-staged",
			"eslintConfig", "eslintIgnore", "prettier", "workspaces"}, json.Unmarshal
	case "pyproject.toml":
		return []string{"tool.pytest", "tool.tox", "tool.nox", "tool.coverage", "tool.ruff", "tool.mypy",
			"tool.pyright", "tool.pylint", "tool.flake8", "tool.black", "tool.isort", "tool.hatch.envs", "tool.poe",
			"tool.pdm.scripts", "tool.taskipy"}, toml.Unmarshal
	case "Cargo.toml":
		return []string{"test", "bench", "lints", "profile.test", "package.autotests", "lib.test", "lib.doctest",
			"workspace.lints", "workspace.members", "workspace.exclude"}, toml.Unmarshal
	}
	return nil, nil
}

// manifest finds keys that say how tests run and have changed.
func (w *weaker) manifest(f change.File, before, after string) {
	keys, parse := manifestKeys(f.Path)
	if keys == nil || f.Old.Mode == "" || max(f.Old.Size, f.New.Size) > maxSource {
		return
	}
	var was, is map[string]any
	errWas, errIs := parse([]byte(before), &was), error(nil)
	if f.New.Mode != "" {
		errIs = parse([]byte(after), &is)
	}
	if errIs != nil && errWas == nil {
		w.add(RuleCommand, f.Path, "it can no longer be parsed", "the commands of before")
		return
	}
	for _, key := range keys {
		if !reflect.DeepEqual(lookUp(was, key), lookUp(is, key)) {
			w.add(RuleCommand, f.Path, key+" was changed", "the commands and settings of checks that there were before")
		}
	}
}

// lookUp returns the value of a key with dots, or nil.
func lookUp(table map[string]any, key string) (value any) {
	value = table
	for part := range strings.SplitSeq(key, ".") {
		t, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = t[part]
	}
	return value
}
