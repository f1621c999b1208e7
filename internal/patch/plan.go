package patch

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"unicode"
)

// Content is the content of a file.
type Content struct {
	Text string
	Mode fs.FileMode // its permissions; 0: the usual ones
}

// Change has a file before and after a patch. Old is nil if the file is new, and New if it is deleted.
type Change struct {
	Path     string // below the root, with slashes
	Old, New *Content
}

// A file of at least shrinkLines lines may not shrink below 1/shrinkFactor of them when it is replaced as a whole:
// models leave out what they were not asked to change.
const (
	shrinkLines  = 100
	shrinkFactor = 10
)

// file is a file while edits are applied to it.
type file struct {
	old, now *Content
	whole    bool        // replaced as a whole
	last     *FileReport // of the last edit
	hunks    int         // of the edits so far
}

// planner applies the edits of a patch to files in memory.
type planner struct {
	read  func(string) (*Content, error)
	files map[string]*file
	order []string
	work  int
}

// Plan applies a patch to the files that read returns by path, and returns what changes. If the report has a
// failure, nothing may be changed. read returns an error that wraps fs.ErrNotExist if there is no such file.
func (p *Patch) Plan(read func(string) (*Content, error)) ([]Change, Report) {
	plan := &planner{read: read, files: map[string]*file{}, work: maxWork}
	report := Report{Files: make([]FileReport, len(p.files))}
	for i := range p.files {
		plan.apply(&p.files[i], &report.Files[i])
	}
	var changes []Change
	for _, name := range plan.order {
		f := plan.files[name]
		if f.last == nil || f.old == nil && f.now == nil || f.old != nil && f.now != nil && *f.old == *f.now {
			continue
		}
		if err := f.check(); err != nil {
			f.last.Error = err.Error()
		}
		changes = append(changes, Change{name, f.old, f.now})
	}
	if report.Failed() {
		changes = nil
	}
	return changes, report
}

// check refuses the new content of a file that cannot be meant.
func (f *file) check() error {
	if f.now == nil {
		return nil
	}
	if err := f.now.check(); err != nil {
		return err
	}
	if f.old == nil || !f.whole {
		return nil
	}
	old, now := len(split(f.old.Text).lines), len(split(f.now.Text).lines)
	if old >= shrinkLines && now*shrinkFactor < old {
		return fmt.Errorf("refused: the file would shrink from %d to %d lines; delete lines with a diff "+
			"if that is meant", old, now)
	}
	return nil
}

// check refuses texts that are too large, or none.
func (c *Content) check() error {
	switch {
	case len(c.Text) > MaxBytes:
		return fmt.Errorf("refused: the file has more than %d bytes", MaxBytes)
	case strings.Count(c.Text, "\n") > maxLines:
		return fmt.Errorf("refused: the file has more than %d lines", maxLines)
	case strings.IndexByte(c.Text, 0) >= 0:
		return errors.New("refused: the file is binary")
	}
	return nil
}

// CheckPath refuses paths that are not below the root, or in a .git directory.
func CheckPath(name string) error {
	switch {
	case !fs.ValidPath(name) || name == "." || !filepath.IsLocal(filepath.FromSlash(name)) || len(name) > maxPath:
		return errors.New("refused: not a path of a file below the root")
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("refused: the path has control characters")
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, ".git") {
			return errors.New("refused: the path is in .git")
		}
	}
	return nil
}

// open returns a file by the first of its names that exists, or by the first one.
func (p *planner) open(names []string) (string, *file, error) {
	for _, name := range names {
		name = strings.TrimPrefix(name, "./")
		if err := CheckPath(name); err != nil {
			if len(names) > 1 {
				continue
			}
			return name, nil, err
		}
		f, err := p.load(name)
		if err != nil {
			return name, nil, err
		}
		if f.now != nil {
			return name, f, nil
		}
	}
	name := strings.TrimPrefix(names[0], "./")
	if err := CheckPath(name); err != nil {
		return name, nil, err
	}
	f, err := p.load(name)
	return name, f, err
}

// load reads a file once.
func (p *planner) load(name string) (*file, error) {
	if f := p.files[name]; f != nil {
		return f, nil
	}
	content, err := p.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		content = nil
	case err != nil:
		return nil, err
	default:
		if err := content.check(); err != nil {
			return nil, err
		}
	}
	f := &file{old: content, now: content}
	p.files[name] = f
	p.order = append(p.order, name)
	return f, nil
}

// apply applies one edit.
func (p *planner) apply(e *edit, report *FileReport) {
	report.Line, report.Action = e.line, string(e.action)
	name, f, err := p.open(e.names)
	report.Path = name
	if err != nil {
		report.Error = err.Error()
		return
	}
	for _, h := range e.hunks {
		f.hunks++
		report.Hunks = append(report.Hunks, HunkReport{Hunk: f.hunks, Line: h.line})
	}
	if len(e.moveTo) > 0 {
		if f, err = p.move(e, f, report); err != nil {
			report.Error = err.Error()
			return
		}
	}
	f.last = report
	earlier := f.now
	now, err := p.content(e, f, report)
	if err != nil {
		report.Error = err.Error()
		return
	}
	if e.hasMode && now != nil && e.action != remove {
		now = &Content{now.Text, withExecutable(now.Mode, e.mode&0o111 != 0)}
	}
	report.Done = report.From == "" && (earlier == now || earlier != nil && now != nil && *earlier == *now) &&
		!report.failed()
	f.now = now
}

// move renames a file, and returns the new one.
func (p *planner) move(e *edit, from *file, report *FileReport) (*file, error) {
	name := strings.TrimPrefix(e.moveTo[0], "./")
	if err := CheckPath(name); err != nil {
		return nil, fmt.Errorf("cannot be renamed to %s: %w", name, err)
	}
	to, err := p.load(name)
	switch old := report.Path; {
	case err != nil:
		return nil, err
	case from.now == nil && to.now != nil: // already renamed
		report.Path = name
	case from.now == nil:
		return nil, errors.New("does not exist")
	case to.now != nil:
		return nil, fmt.Errorf("cannot be renamed to %s, which exists", name)
	default:
		report.Path, report.From = name, old
		to.now, to.whole = from.now, to.old != nil
		from.now, from.last = nil, report
	}
	return to, nil
}

// content returns the new content of a file, or nil if it is deleted.
func (p *planner) content(e *edit, f *file, report *FileReport) (*Content, error) {
	text := e.content
	switch e.action {
	case create:
		if len(e.hunks) > 0 {
			var err error
			if text, err = addedText(e.hunks); err != nil {
				return nil, err
			}
		}
		if f.now != nil && strings.TrimSpace(f.now.Text) != "" && f.now.Text != text {
			return nil, errors.New("exists already, with other content")
		}
	case replace:
		if f.now != nil {
			text = likeFile(text, f.now.Text)
		}
	case remove:
		if f.now == nil {
			return nil, nil
		}
		if len(e.hunks) > 0 && p.update(e, f, report) != "" && !report.failed() {
			return nil, errors.New("is not deleted: it has other lines than those that the diff removes")
		}
		return nil, nil
	default:
		if f.now == nil {
			return nil, errors.New("does not exist")
		}
		return &Content{p.update(e, f, report), f.now.Mode}, nil
	}
	if f.now == nil {
		f.whole = f.old != nil
		report.Action = string(create)
		return &Content{Text: text}, nil
	}
	f.whole = true
	return &Content{text, f.now.Mode}, nil
}

// update returns the text of a file with the hunks of an edit applied.
func (p *planner) update(e *edit, f *file, report *FileReport) string {
	return applyHunks(f.now.Text, e, path.Ext(report.Path) == ".go", report.Hunks, &p.work)
}

// addedText returns the text of a new file.
func addedText(hunks []hunk) (string, error) {
	var b strings.Builder
	for _, h := range hunks {
		for _, l := range h.lines {
			if l.kind != '+' {
				return "", errors.New("does not apply: the diff of a new file has lines without +")
			}
			b.WriteString(l.text + "\n")
		}
	}
	if hunks[len(hunks)-1].newNoEnd {
		return strings.TrimSuffix(b.String(), "\n"), nil
	}
	return b.String(), nil
}

// likeFile gives a whole text the line ends of the file that it replaces.
func likeFile(text, old string) string {
	t := split(old)
	if t.mostlyCRLF() && len(t.lines) > 0 {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if t.noEnd {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	return text
}

// withExecutable returns a mode in which those may execute a file that may read it, or none.
func withExecutable(mode fs.FileMode, may bool) fs.FileMode {
	if mode == 0 {
		mode = 0o666
	}
	if may {
		return mode | mode&0o444>>2
	}
	return mode &^ 0o111
}
