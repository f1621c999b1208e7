package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Stage is the command of a stage of the pipeline, in its worktree: DESK NAME. The desk is a directory that all stages
// share. It returns the exit code.
func Stage(args []string) int {
	desk, name := args[0], args[1]
	input, err := io.ReadAll(os.Stdin)
	if err == nil {
		switch name {
		case "model":
			err = model(desk, string(input))
		case "check":
			err = checkFiles()
		case "review":
			if strings.Contains(string(input), "\n+"+backdoor) {
				err = errors.New("it has a backdoor")
			}
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// checkFiles is the test of the repository.
func checkFiles() error {
	files, err := filepath.Glob("*.txt")
	for _, file := range files {
		text, e := os.ReadFile(file)
		if err = errors.Join(err, e); strings.Contains(string(text), badLine) {
			err = errors.Join(err, errors.New("a file is bad: "+file))
		}
	}
	return err
}

// modelTime is the time that a model takes, in which it may be killed.
const modelTime = 50 * time.Millisecond

// model plans and implements what the act of the attempt says. It keeps its prompt.
func model(desk, prompt string) error {
	id, name := os.Getenv("COPPICE_TASK"), os.Getenv("COPPICE_STAGE")
	keep := filepath.Join(desk, "prompts", fmt.Sprintf("%s-%s-%s", id, name, os.Getenv("COPPICE_ATTEMPT")))
	if err := os.WriteFile(keep, []byte(prompt), 0o600); err != nil {
		return err
	}
	time.Sleep(modelTime)
	_, rest, _ := strings.Cut(prompt, "\n| "+id+": ")
	title, rest, _ := strings.Cut(rest, "\n")
	kind, file, ok := strings.Cut(title, " ")
	if !ok {
		return fmt.Errorf("the prompt has no title: %.300q", prompt)
	}
	a, n := current(kind, prompt)
	if name == "implement" {
		if err := implement(desk, title, n, a); err != nil {
			return err
		}
		fmt.Printf(`{"summary":"edited","commit_subject":"Edit %s"}`+"\n", file)
		return nil
	}
	switch {
	case a.how == hangs:
		select {}
	case kind == "divide":
		p := parts(title)
		fmt.Printf(`{"subtasks":[{"id":"one","objective":%q},{"id":"two","objective":%q,"depends_on":["one"]}]}`+"\n",
			p[0], p[1])
	case kind == "defer" && a.plan != "":
		other, _, _ := strings.Cut(strings.TrimPrefix(rest, "| needs "), "\n")
		fmt.Printf(a.plan+"\n", other)
	case a.plan != "":
		fmt.Println(a.plan)
	default:
		fmt.Println(planOf(fileOf(title)))
	}
	return nil
}

// implement edits files, and notes the result in the journal of the desk.
func implement(desk, title string, n int, a act) error {
	line, files := goodLine, []string{fileOf(title)}
	switch {
	case a.how == wide:
		files = append(files, "w1.txt", "w2.txt")
	case a.how == meets && n == 0:
		if err := meet(desk, title); err != nil {
			return err
		}
	case a.edits != "":
		line = a.edits
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		now := edited(string(text), title, line)
		if err := os.WriteFile(file, []byte(now), 0o600); err != nil {
			return err
		}
		if err := note(desk, file, now); err != nil {
			return err
		}
	}
	if a.how == crashes {
		return errors.Join(syscall.Kill(os.Getpid(), syscall.SIGTERM), wait())
	}
	return nil
}

// wait waits for a signal that has been sent.
func wait() error {
	time.Sleep(time.Minute)
	return errors.New("the signal has not come")
}

// meet waits until the other task that edits the same line is there, too, so that both begin at the same commit. It
// need not wait if the other one has been there earlier.
func meet(desk, title string) error {
	_, name, _ := strings.Cut(title, " ")
	other := map[string]string{"left": "right", "right": "left"}[name]
	if err := os.WriteFile(filepath.Join(desk, "met-"+name), nil, 0o600); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(desk, "met-"+other)); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// edit is a file that an attempt has edited. What it was is in the repository, whatever becomes of the attempt.
type edit struct {
	Task, Attempt, File, Text string
}

const editsName = "edits.ndjson"

// note adds an edit to the journal, by one write.
func note(desk, file, text string) error {
	line, err := json.Marshal(edit{os.Getenv("COPPICE_TASK"), os.Getenv("COPPICE_ATTEMPT"), file, text})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(desk, editsName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
