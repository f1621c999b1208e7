package change

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/coppice-dev/coppice/internal/change/pattern"
	"github.com/coppice-dev/coppice/internal/plaintext"
)

const (
	maxPlanNames = 1000 // of files in a plan, each time that it names one
	maxPlanName  = 1024 // bytes of a name
)

// Step is a step of a plan.
type Step struct {
	Name  string   `json:"name"`
	Files []string `json:"files"`
}

// CheckPlan returns what rules find in a plan before anything of it is done: an empty one, too many
// files in all or in one step, names that are no files of the work tree, protected files, and in
// Maintenance tests and validation. Names are as a model has written them. Symbolic links are not
// resolved: Check does that with the change.
func CheckPlan(files []string, steps []Step, r Rules) []Finding {
	k := checker{rules: r}
	named := len(files)
	for _, s := range steps {
		named += len(s.Files)
	}
	if named > maxPlanNames {
		k.refuse(RuleTooLarge, "", fmt.Sprintf("the plan names files %s times", thousands(named)),
			thousands(maxPlanNames))
		return k.findings
	}
	all := map[string]bool{}
	k.names(files, all)
	for _, s := range steps {
		own := map[string]bool{}
		k.names(s.Files, own)
		for name := range own {
			all[name] = true
		}
		if len(own) > StepFiles {
			k.refuse(RuleFiles, "", fmt.Sprintf("the step %s names %d files", quoteName(s.Name), len(own)),
				fmt.Sprintf("at most %d files in a step", StepFiles))
		}
	}
	if len(all) == 0 && len(k.findings) == 0 {
		k.refuse(RuleEmpty, "", "the plan names no files", "a plan that names the files to change")
	}
	if r.MaxFiles > 0 && len(all) > r.MaxFiles {
		k.refuse(RuleFiles, "", fmt.Sprintf("the plan names %s files", thousands(len(all))),
			k.most(r.MaxFiles, "files"))
	}
	return k.findings
}

// names checks names, and adds the folded ones to a set.
func (k *checker) names(files []string, all map[string]bool) {
	for _, given := range files {
		name, problem := cleanName(given)
		if problem != "" {
			k.planned(RuleName, given, problem, "the name of a file in the work tree")
			continue
		}
		folded := pattern.Fold(name)
		if all[folded] {
			continue
		}
		all[folded] = true
		if by, ok := k.rules.protects(name); ok {
			k.planned(RuleProtected, given, "a protected file", "no change of "+by)
		} else if k.rules.Kind != Maintenance {
			continue
		} else if text, ok := k.rules.Tests.Match(name); ok {
			k.planned(RuleTest, given, "a test", "no change of "+Quote(text)+" in maintenance mode")
		} else if text, ok := k.rules.Validation.Match(name); ok {
			k.planned(RuleValidation, given, "what decides about checks",
				"no change of "+Quote(text)+" in maintenance mode")
		}
	}
}

// planned refuses a file of a plan once.
func (k *checker) planned(rule Rule, name, found, allowed string) {
	f := Finding{Rule: rule, Path: shorten(name), Found: found, Allowed: allowed}
	for _, other := range k.findings {
		if other == f {
			return
		}
	}
	k.findings = append(k.findings, f)
}

// cleanName returns the path of a name from a plan, or what is wrong with it. A backslash counts as a
// slash.
func cleanName(given string) (name, problem string) {
	switch {
	case len(given) > maxPlanName:
		return "", fmt.Sprintf("a name of %s bytes", thousands(len(given)))
	case !utf8.ValidString(given):
		return "", "a name that is not UTF-8"
	case plaintext.Line(given) != given || strings.TrimSpace(given) != given:
		return "", "a name with control characters, or blanks at its ends"
	}
	slashed := strings.ReplaceAll(given, `\`, "/")
	name = path.Clean(slashed)
	switch {
	case strings.HasPrefix(slashed, "/") || len(slashed) > 1 && slashed[1] == ':':
		return "", "an absolute path"
	case strings.HasPrefix(slashed, "~"):
		return "", "a path in a home directory"
	case name == ".." || strings.HasPrefix(name, "../"):
		return "", "a path out of the work tree"
	case name == "." || given == "":
		return "", "no file"
	}
	return name, ""
}

// shorten bounds a name in a finding.
func shorten(name string) string {
	if len(name) > maxPlanName {
		return strings.ToValidUTF8(name[:100], "") + "…"
	}
	return name
}

func quoteName(name string) string { return Quote(plaintext.OneLine(name, 100)) }
