package fakeagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/proc"
)

// EnvName is the variable that holds the Setting of a run. Coppice passes it on to all agents.
const EnvName = proc.EnvFake

// Setting is what all calls of a run share.
type Setting struct {
	Plan  Plan
	Start time.Time // of the run
	// Dir is the directory of the run: everything that fakes write is below it.
	Dir string
}

// setting is a Setting as a value of EnvName.
type setting struct {
	Plan  string    `json:"plan"`
	Start time.Time `json:"start"`
	Dir   string    `json:"dir"`
}

// maxSetting bounds the value of EnvName, in bytes.
const maxSetting = 64 << 10

// Env returns the value of EnvName.
func (s Setting) Env() string {
	text, err := json.Marshal(setting{s.Plan.String(), s.Start, s.Dir})
	if err != nil { // a time beyond the year 9999
		return ""
	}
	return string(text)
}

// ParseSetting parses the value of EnvName.
func ParseSetting(env string) (Setting, error) {
	if env == "" {
		return Setting{}, fmt.Errorf(
			"%s is not set; fakes run only below coppice run --fake, with its environment",
			EnvName,
		)
	}
	if len(env) > maxSetting {
		return Setting{}, fmt.Errorf("%s has %d bytes, expected at most %d", EnvName, len(env), maxSetting)
	}
	var v setting
	if err := json.Unmarshal([]byte(env), &v); err != nil {
		return Setting{}, fmt.Errorf("%s is not what coppice run --fake sets: %w", EnvName, err)
	}
	s := Setting{Start: v.Start, Dir: v.Dir}
	var err error
	if s.Plan, err = Parse(v.Plan); err != nil {
		return s, fmt.Errorf("%s: %w", EnvName, err)
	}
	if !filepath.IsAbs(s.Dir) || s.Start.IsZero() {
		err = errors.New("the directory or the start of the run is missing")
	} else if info, e := os.Stat(s.Dir); e != nil {
		err = e
	} else if !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", s.Dir)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", EnvName, err)
	}
	return s, nil
}
