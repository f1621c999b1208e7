// Package progress keeps what a worker of a pipeline does in a file. The worker writes it, also while no daemon runs;
// the daemon reads it, and so do commands that read the records of a project without one.
package progress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/private"
)

// Progress is the point that a worker has reached in an attempt at a task.
type Progress struct {
	_ struct{} `schema:"PipelineProgress" open:"true" doc:"The point that a worker of a pipeline has reached in an attempt at a task."`

	Incarnation uint64    `json:"incarnation" minimum:"1" doc:"Number of the incarnation of the worker."`
	Task        string    `json:"task" doc:"The task."`
	Attempt     int       `json:"attempt" minimum:"1" doc:"Number of the attempt, from 1."`
	BeganAt     time.Time `json:"began_at" doc:"When the attempt began."`
	Mode        string    `json:"mode,omitempty" doc:"The mode of the task; missing until it is chosen."`
	Stage       string    `json:"stage,omitempty" doc:"The stage; missing while the repository is opened and the worktree made."`
	Since       time.Time `json:"since" doc:"When the stage began."`
	Worktree    string    `json:"worktree,omitempty" doc:"The directory of its worktree; missing until it is made."`
}

// String returns the progress in a line, as the worker reports it with sd_notify.
func (p Progress) String() string {
	stage := p.Stage
	if stage == "" {
		stage = "prepares"
	}
	return fmt.Sprintf("%s: %s (attempt %d)", stage, p.Task, p.Attempt)
}

// maxFile bounds the file that is read, in bytes.
const maxFile = 8 << 10

func file(dir string) string { return filepath.Join(dir, "progress.json") }

// Write replaces the progress in the directory of the files of a worker.
func Write(dir string, p Progress) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return private.Replace(file(dir), text)
}

// Read returns the progress of an incarnation of the worker with these files; nil if it has claimed no task yet. An
// error names the file.
func Read(dir string, incarnation uint64) (*Progress, error) {
	text, err := private.ReadFile(file(dir), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p Progress
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", file(dir), err)
	}
	if p.Incarnation != incarnation || p.Task == "" || p.Attempt < 1 {
		return nil, nil
	}
	return &p, nil
}

// Remove removes the progress of the incarnation before.
func Remove(dir string) error {
	if err := os.Remove(file(dir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
