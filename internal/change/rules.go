package change

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/change/pattern"
)

// Kind is the kind of a set of rules.
type Kind string

const (
	// Maintenance allows small changes of existing files that no person has to approve.
	Maintenance Kind = "maintenance"
	// Evolution allows large changes, which a person approves.
	Evolution Kind = "evolution"
)

// Kinds returns all kinds, the strictest first.
func Kinds() []Kind { return []Kind{Maintenance, Evolution} }

// Limits of the rules.
const (
	maintenanceFiles = 2   // files of a change
	maintenanceLines = 150 // lines added and deleted
	StepFiles        = 2   // files of one step of a plan, in each kind

	truncatedLines = 100      // a file of so many lines, or
	truncatedBytes = 10 << 10 // so many bytes, must keep
	keptPercent    = 10       // this much of its size
)

// Rules say what a change may do.
type Rules struct {
	Kind Kind
	// MaxFiles and MaxLines bound a change; 0 is no limit. Lines are added and deleted ones.
	MaxFiles, MaxLines int
	// Protected may not be changed in any way.
	Protected pattern.List
	// Tests and Validation may not be changed in Maintenance; in Evolution a person is told.
	Tests, Validation pattern.List
}

// NewRules returns the rules of a kind. The patterns are as in pattern.NewList: protect names what may
// not be changed at all; tests and validation are added to DefaultTests and DefaultValidation.
func NewRules(kind Kind, protect, tests, validation []string) (r Rules, err error) {
	r.Kind = kind
	switch kind {
	case Maintenance:
		r.MaxFiles, r.MaxLines = maintenanceFiles, maintenanceLines
	case Evolution:
	default:
		return r, fmt.Errorf("unknown kind of rules %q: expected maintenance or evolution", kind)
	}
	for _, l := range []struct {
		list     *pattern.List
		patterns []string
	}{
		{&r.Protected, protect},
		{&r.Tests, append(DefaultTests(), tests...)},
		{&r.Validation, append(DefaultValidation(), validation...)},
	} {
		if *l.list, err = pattern.NewList(l.patterns...); err != nil {
			return r, err
		}
	}
	return r, nil
}

// DefaultTests returns patterns of test files.
func DefaultTests() []string {
	return strings.Fields(`
		*_test.go testdata
		test_*.py *_test.py conftest.py
		__tests__ __mocks__ __snapshots__ *.snap *.test.?s *.test.?sx *.test.?js *.test.?ts
		*.spec.?s *.spec.?sx *.spec.?js *.spec.?ts *.cy.?s
		*_test.rs *_tests.rs tests.rs
		*_spec.rb *_test.rb
		*Test.java *Tests.java *IT.java *Test.kt *Spec.scala *Test.cs *Tests.cs *Test.php *_test.dart
		*_test.exs *_SUITE.erl *_test.cc *_test.cpp *_test.c *_test.sh *.bats *.t
		test tests /spec /specs e2e golden *.golden`)
}

// DefaultValidation returns patterns of the files that decide what is checked, and how: continuous integration,
// linters, type checkers, test runners, build rules, hooks of git, and what agents may do.
func DefaultValidation() []string {
	return strings.Fields(`
		.github .gitlab .gitlab-ci.yml .gitea .forgejo .circleci .buildkite .woodpecker .woodpecker.y*ml .travis.yml
		.drone.yml .cirrus.yml azure-pipelines.y*ml bitbucket-pipelines.yml appveyor.yml Jenkinsfile cloudbuild.y*ml
		.pre-commit-config.yaml .husky .githooks lefthook.y*ml .lefthook.y*ml .lintstagedrc* lint-staged.config.*
		CODEOWNERS .gitattributes .gitignore .gitmodules .editorconfig
		Makefile GNUmakefile *.mk justfile .justfile Taskfile.y*ml Rakefile noxfile.py tox.ini
		.golangci.* staticcheck.conf
		.flake8 .pylintrc pylintrc ruff.toml .ruff.toml mypy.ini .mypy.ini pyrightconfig.json pytest.ini .pytest.ini
		.coveragerc setup.cfg
		.eslintrc* .eslintignore eslint.config.* .prettierrc* .prettierignore biome.json* tslint.json tsconfig*.json
		jest.config.* vitest.config.* vitest.workspace.* playwright.config.* cypress.config.* karma.conf.* .mocharc*
		.nycrc* .c8rc*
		clippy.toml .clippy.toml rustfmt.toml .rustfmt.toml deny.toml .cargo nextest.toml
		.rubocop.yml .rspec phpunit.xml* phpstan.neon* .credo.exs checkstyle.xml detekt.yml .clang-tidy .clang-format
		.shellcheckrc .hadolint.y*ml .yamllint* .markdownlint* codecov.y*ml .codecov.y*ml sonar-project.properties
		coppice.toml .coppice Aidefile .claude .codex .gemini .opencode .mcp.json`)
}

// Rule is a rule of a change or a plan.
type Rule string

const (
	RuleEmpty      Rule = "empty"      // nothing was changed, or is planned
	RuleTooLarge   Rule = "too large"  // more than can be read
	RuleHidden     Rule = "hidden"     // what git cannot record
	RuleFiles      Rule = "files"      // too many files
	RuleLines      Rule = "lines"      // too many lines
	RuleName       Rule = "name"       // not the name of a file in the work tree
	RuleProtected  Rule = "protected"  // a protected path, or .git
	RuleLink       Rule = "link"       // a symbolic link that leads to a protected path or out of the work tree
	RuleTest       Rule = "test"       // a test file
	RuleValidation Rule = "validation" // a file that decides what is checked
	RuleDeleted    Rule = "deleted"    // a whole file
	RuleTruncated  Rule = "truncated"  // most of a file
	RuleMode       Rule = "mode"       // an executable, a symbolic link, a submodule or another mode
	RuleBinary     Rule = "binary"     // content without lines
)

// Finding is something that the rules do not allow, or that a person should look at.
type Finding struct {
	Rule Rule `json:"rule"`
	// Path is the path, if one is concerned. Quote makes it safe to show.
	Path string `json:"path,omitempty"`
	// Found and Allowed are plain text, safe to show.
	Found   string `json:"found"`
	Allowed string `json:"allowed"`
	// Review means that the change is allowed if a person who has seen the finding approves it.
	Review bool `json:"review,omitempty"`
}

// String returns the finding in one line that is safe to show.
func (f Finding) String() string {
	text := f.Found + "; allowed: " + f.Allowed
	if f.Path != "" {
		text = Quote(f.Path) + ": " + text
	}
	return text
}

// Refused reports whether a finding refuses the change.
func Refused(all []Finding) bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return !f.Review })
}
