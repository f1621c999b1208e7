package runner

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// describe sets the variables that describe the run to commands and hooks.
func (r *Runner) describe() {
	for name, value := range map[string]string{
		"TASK": r.request.Task, "TRIGGER": r.request.Trigger,
		"PERSONA": r.file.Persona.Name, "STYLE": r.file.Persona.Style,
		"WORKSPACE": strings.Join(r.workspace(), ":"), "SKILLS": strings.Join(r.file.Skills, ":"),
		"MEMORY": r.memory(), "AIDEFILE": r.request.Aidefile,
	} {
		r.env["COPPICE_"+name] = strings.ReplaceAll(value, "\x00", "")
	}
	if r.request.Issue > 0 {
		r.env["COPPICE_ISSUE"] = fmt.Sprint(r.request.Issue)
	}
}

// values returns the values of the placeholders.
func (r *Runner) values(prompt, task string) map[string]string {
	return map[string]string{
		"task": task, "prompt": prompt, "persona": r.file.Persona.Name, "style": r.file.Persona.Style,
		"dir":    filepath.Dir(r.request.Aidefile),
		"memory": r.memory(), "workspace": strings.Join(r.workspace(), ":"),
		"skills": strings.Join(r.file.Skills, ":"), "tokens": fmt.Sprint(r.meter.Left()),
	}
}

func (r *Runner) memory() string { return filepath.Join(filepath.Dir(r.request.Aidefile), "memory") }

// workspace returns the absolute paths that the agent may read.
func (r *Runner) workspace() (all []string) {
	for _, path := range r.file.Workspace.Read {
		if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
			path = filepath.Join(r.env["HOME"], rest)
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(r.request.Aidefile), path)
		}
		all = append(all, filepath.Clean(path))
	}
	return all
}

// maxSkill bounds the text of a skill, in bytes.
const maxSkill = 256 << 10

// skill returns the text of a skill if it is a file next to the Aidefile.
func (r *Runner) skill(name string) string {
	if !filepath.IsLocal(name) {
		return ""
	}
	f, err := os.OpenInRoot(filepath.Dir(r.request.Aidefile), name)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSkill))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(text), "�"))
}

// memoryTokens returns the size of the files in the memory, without subdirectories.
func (r *Runner) memoryTokens() (tokens int64, exists bool) {
	entries, err := os.ReadDir(r.memory())
	if err != nil {
		return 0, false
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode()&fs.ModeType == 0 {
			tokens += info.Size()
		}
	}
	return tokens / 4, true
}

// parts is a prompt, as parts with titles.
type parts struct{ strings.Builder }

func (b *parts) add(title, format string, args ...any) {
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "# %s\n\n%s\n", title, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// goOn returns the prompt of a call that continues the session of the last try, which has the task.
func (r *Runner) goOn(last *try) string {
	var b parts
	b.add("Go on", "Your work was interrupted: %v\nGo on with the task where it was interrupted.",
		r.secrets.redact(last.err.Error()))
	r.addEnd(&b)
	return b.String()
}

// addEnd adds what the prompt of each call ends with.
func (r *Runner) addEnd(b *parts) {
	output := fmt.Sprintf("When you end, write a summary of at most %d tokens between "+
		"<aide-summary> and </aide-summary>.", r.file.Output.MaxSummaryTokens)
	if s := r.file.Output.NarrativeSchema; s != "" {
		output += " It contains: " + s
	}
	b.add("Budget", "You have %s tokens.", r.meter.LeftText())
	b.add("Summary", "%s", output)
}

// prompt returns the standard input of the command, with the whole task. last is the try before; nil if there is none.
func (r *Runner) prompt(last *try) string {
	var b parts
	part := b.add
	who := "You are " + r.file.Persona.Name + "."
	if s := r.file.Persona.Style; s != "" {
		who += "\n" + s
	}
	part("Who you are", "%s", who)
	part("Task", "%s", r.request.Task)
	if last != nil {
		text := fmt.Sprintf("This is try %d. The one before it has failed: %v\nDo not repeat what has failed.",
			r.meter.Calls(), last.err)
		if last.answer != "" {
			text += "\nThe last that it said:\n\n" + last.answer
		}
		part("What was tried", "%s", r.secrets.redact(text))
	}
	if size, exists := r.memoryTokens(); exists {
		text := fmt.Sprintf("What you kept from earlier runs is in %s. Read what you need of it, and keep there "+
			"what a later run has to know.", r.memory())
		if size > r.file.Memory.CompactAfter {
			text += fmt.Sprintf("\nIt has %d tokens, and should have at most %d: make it smaller before you "+
				"end, and keep what matters.", size, r.file.Memory.CompactAfter)
		}
		part("Memory", "%s", text)
	}
	for _, name := range r.file.Skills {
		if text := r.skill(name); text != "" {
			part("Skill: "+name, "%s", text)
		} else {
			part("Skill: "+name, "You know how to do this.")
		}
	}
	if all := r.workspace(); len(all) > 0 {
		part("Workspace", "Besides the current directory you may read:\n- %s", strings.Join(all, "\n- "))
	}
	r.addEnd(&b)
	return b.String()
}
