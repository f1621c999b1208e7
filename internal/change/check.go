package change

import (
	"fmt"
	"sort"
	"strings"

	"github.com/coppice-dev/coppice/internal/change/pattern"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

// Check returns what rules find in a change, first what concerns the whole of it. It reads nothing
// but its arguments.
func Check(c *Change, r Rules) []Finding {
	k := checker{change: c, rules: r}
	for _, h := range c.Hidden {
		k.refuse(RuleHidden, h.Path, h.What, "what git can record, so that it can be reviewed")
	}
	if c.TooLarge != "" {
		k.refuse(RuleTooLarge, "", "the change has "+c.TooLarge, fmt.Sprintf("%s files, and %d MiB in them",
			plaintext.Thousands(MaxFiles), MaxBytes>>20))
		return k.findings
	}
	if len(c.Files) == 0 {
		k.refuse(RuleEmpty, "", "nothing was changed", "a change")
	}
	t := c.Totals()
	if r.MaxFiles > 0 && t.Files > r.MaxFiles {
		k.refuse(RuleFiles, "", fmt.Sprintf("%s files were changed", thousands(t.Files)), k.most(r.MaxFiles, "files"))
	}
	if n := t.Added + t.Deleted; r.MaxLines > 0 && n > r.MaxLines {
		k.refuse(RuleLines, "", fmt.Sprintf("%s lines were changed (%s added, %s deleted)", thousands(n),
			thousands(t.Added), thousands(t.Deleted)), k.most(r.MaxLines, "lines"))
	}
	for _, f := range c.Files {
		k.file(f)
	}
	return k.findings
}

func thousands(n int) string { return plaintext.Thousands(int64(n)) }

// checker collects the findings of one change.
type checker struct {
	change   *Change
	rules    Rules
	findings []Finding
}

func (k *checker) refuse(rule Rule, path, found, allowed string) {
	k.findings = append(k.findings, Finding{Rule: rule, Path: path, Found: found, Allowed: allowed})
}

// limit refuses in Maintenance, and asks for a review in Evolution.
func (k *checker) limit(rule Rule, path, found, allowed string) {
	k.findings = append(k.findings, Finding{rule, path, found, allowed, k.rules.Kind == Evolution})
}

func (k *checker) most(n int, what string) string {
	return fmt.Sprintf("at most %d %s in %s mode", n, what, k.rules.Kind)
}

// file checks one file.
func (k *checker) file(f File) {
	for _, name := range f.Paths() {
		did := f.did(name)
		if reason, ok := k.rules.protects(name); ok {
			k.refuse(RuleProtected, name, did, "no change of "+reason)
		} else if text, ok := k.rules.Tests.Match(name); ok {
			if f.Old.Mode == "" && k.rules.Kind == Evolution {
				continue // another test
			}
			k.limit(RuleTest, name, "a test was "+did, k.unlessApproved("no change of "+Quote(text)))
		} else if text, ok := k.rules.Validation.Match(name); ok {
			k.limit(RuleValidation, name, "what decides about checks was "+did,
				k.unlessApproved("no change of "+Quote(text)))
		}
	}
	k.link(f)
	k.size(f)
	k.mode(f)
}

// did says in plain text what was done to one of the paths of a file.
func (f File) did(name string) string {
	switch {
	case f.Status == Renamed && name == f.OldPath:
		return "renamed to " + Quote(f.Path)
	case f.Status == Renamed:
		return "renamed from " + Quote(f.OldPath)
	case f.Status == Copied:
		return "copied from " + Quote(f.OldPath)
	case f.Status == Modified && f.Old.ID == f.New.ID:
		return fmt.Sprintf("changed in its mode from %s to %s", f.Old.Mode, f.New.Mode)
	case f.Status == TypeChanged:
		return fmt.Sprintf("changed from %s to %s", f.Old.Mode.what(), f.New.Mode.what())
	}
	return string(f.Status)
}

// what returns what a mode is, with an article.
func (m Mode) what() string {
	switch m {
	case Regular:
		return "a file"
	case Executable:
		return "an executable"
	case Symlink:
		return "a symbolic link"
	case Submodule:
		return "a submodule"
	}
	return "mode " + Quote(string(m))
}

func (k *checker) unlessApproved(allowed string) string {
	if k.rules.Kind == Evolution {
		return "what a person approves"
	}
	return allowed
}

// protects reports whether a clean path is protected, and by what.
func (r Rules) protects(name string) (by string, ok bool) {
	for part := range strings.SplitSeq(name, "/") {
		if pattern.IsGit(part) {
			return ".git", true
		}
	}
	text, ok := r.Protected.Match(name)
	return Quote(text), ok
}

// link checks where a new or changed symbolic link leads.
func (k *checker) link(f File) {
	if f.New.Mode != Symlink {
		return
	}
	to := "a symbolic link to " + Quote(f.New.Target)
	target, ok := k.change.links.with(f).resolve(f.Path)
	if !ok {
		k.refuse(RuleLink, f.Path, to+", which leads out of the work tree or nowhere", "links within the work tree")
		return
	}
	by, protected := k.rules.protects(target)
	if !protected {
		by, protected = k.protectedBelow(target)
	}
	if protected {
		k.refuse(RuleLink, f.Path, fmt.Sprintf("%s, through which %s could be changed", to, by),
			"no link to a protected path")
	}
}

// with returns the links with that of a file, which a Change that was not read does not have.
func (l links) with(f File) links {
	if _, ok := l[f.Path]; ok {
		return l
	}
	return links{f.Path: f.New.Target}
}

// protectedBelow reports whether something below a directory is protected.
func (k *checker) protectedBelow(dir string) (by string, ok bool) {
	if dir == "." {
		return ".git", true
	}
	if text, ok := k.rules.Protected.Below(dir); ok {
		return Quote(text), true
	}
	present := k.change.present
	for i := sort.SearchStrings(present, dir+"/"); i < len(present) && strings.HasPrefix(present[i], dir+"/"); i++ {
		if _, ok := k.rules.protects(present[i]); ok {
			return Quote(present[i]), true
		}
	}
	return "", false
}

// size checks how much of a file is left.
func (k *checker) size(f File) {
	before, after := f.Old, f.New
	if before.Mode != Regular && before.Mode != Executable {
		return
	}
	large := before.Lines >= truncatedLines || before.Size >= truncatedBytes
	switch {
	case after.Mode == "":
		if large || k.rules.Kind == Maintenance {
			k.limit(RuleDeleted, f.Path, fmt.Sprintf("a file of %s lines was deleted", thousands(before.Lines)),
				k.unlessApproved("no deletion in maintenance mode"))
		}
	case before.Lines >= truncatedLines && after.Lines*100 < before.Lines*keptPercent:
		k.refuse(RuleTruncated, f.Path, fmt.Sprintf("%s of %s lines are left", thousands(after.Lines),
			thousands(before.Lines)), fmt.Sprintf("at least %d %%", keptPercent))
	case large && after.Size*100 < before.Size*keptPercent:
		k.refuse(RuleTruncated, f.Path, fmt.Sprintf("%s of %s bytes are left", plaintext.Thousands(after.Size),
			plaintext.Thousands(before.Size)), fmt.Sprintf("at least %d %%", keptPercent))
	}
}

// mode checks what kind of file there is after the change.
func (k *checker) mode(f File) {
	if f.New.Mode == Submodule || f.Old.Mode == Submodule {
		k.limit(RuleMode, f.Path, "a submodule was "+f.did(f.Path), k.unlessApproved("no change of a submodule"))
		return
	}
	if k.rules.Kind != Maintenance || f.Status == Deleted {
		return
	}
	switch {
	case f.New.Mode == Symlink:
		k.refuse(RuleMode, f.Path, "a symbolic link was "+f.did(f.Path),
			"no new or changed symbolic link in maintenance mode")
	case f.Old.Mode == "" && f.New.Mode == Executable:
		k.refuse(RuleMode, f.Path, "an executable was "+f.did(f.Path), "no new executable in maintenance mode")
	case f.Old.Mode != "" && f.Old.Mode != f.New.Mode:
		k.refuse(RuleMode, f.Path, fmt.Sprintf("%s became %s", f.Old.Mode.what(), f.New.Mode.what()),
			"no change of the mode in maintenance mode")
	}
	if (f.Old.Binary || f.New.Binary) && f.Old.ID != f.New.ID {
		k.refuse(RuleBinary, f.Path, "binary content was "+f.did(f.Path), "text in maintenance mode")
	}
}
