package fakeagent

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/coppice-dev/coppice/internal/pipeline"
	"github.com/coppice-dev/coppice/internal/runtime/proc"
	"github.com/coppice-dev/coppice/internal/safename"
)

// Variables that the worker of a pipeline sets for the command of a stage.
const (
	envStage   = proc.EnvPrefix + "STAGE"
	envTask    = proc.EnvPrefix + "TASK"
	envAttempt = proc.EnvPrefix + "ATTEMPT"
)

// wideFiles is how many files Wide changes. Maintenance mode allows two.
const wideFiles = 3

// inStage reports whether the call is made in a stage of a pipeline.
func (p *player) inStage(n pipeline.Name) bool { return p.env(envStage) == n.String() }

// text returns the answer of the model.
func (p *player) text() string {
	if answer := p.stageAnswer(); answer != nil && p.item.Scenario != Unusable {
		return fmt.Sprintf("This was a fake of %s.\n%s", Program(p.cli), strings.TrimSuffix(encode(answer), "\n"))
	}
	text := fmt.Sprintf("This was a fake of %s: nothing was done.", Program(p.cli))
	if strings.Contains(p.prompt, "<aide-summary>") {
		text += " <aide-summary>A fake was called, and has done nothing.</aide-summary>"
	}
	return text
}

// stageAnswer returns an answer that fits the schema of the stage of a pipeline in which the call is made; nil if it is
// made elsewhere.
func (p *player) stageAnswer() object {
	switch {
	case p.inStage(pipeline.Plan):
		file := p.stageFiles()[0]
		return object{"steps": []object{{
			"name": "add a line", "instructions": "Add a line to " + file + ".", "files": []string{file},
		}}}
	case p.inStage(pipeline.Implement):
		return object{"summary": "A fake has added a line and done nothing else.",
			"commit_subject": "Add a line of a fake of " + Program(p.cli)}
	case p.inStage(pipeline.Security) && p.item.Scenario == Block:
		return object{"verdict": "block", "findings": []string{"this is a fake, which was told to block"}}
	case p.inStage(pipeline.Security):
		return object{"verdict": "pass"}
	}
	return nil
}

// stageFiles returns the files that the call changes in Implement, relative to the worktree.
func (p *player) stageFiles() []string {
	name := path.Join("fake", safename.Of(cmp.Or(p.env(envTask), "task")))
	files := []string{name + ".txt"}
	for n := 2; p.item.Scenario == Wide && n <= wideFiles; n++ {
		files = append(files, fmt.Sprintf("%s-%d.txt", name, n))
	}
	return files
}

// change makes the change of Implement in the worktree; in another stage and elsewhere it does nothing. It adds lines,
// so that the repair of a change, and another attempt at a task that was done before, also changes something.
func (p *player) change() error {
	if !p.inStage(pipeline.Implement) {
		return nil
	}
	if err := linked(p.cwd); err != nil {
		return err
	}
	root, err := os.OpenRoot(p.cwd) // fake may be a link
	if err != nil {
		return err
	}
	defer root.Close()
	line := fmt.Sprintf("A fake of %s was here, in attempt %s.\n", Program(p.cli), cmp.Or(p.env(envAttempt), "1"))
	for _, name := range p.stageFiles() {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		_, err = file.WriteString(line)
		if err = cmp.Or(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}
