package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/plaintext"
)

func TestManText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"One\ntwo.\n\nThree.":          ".PP\nOne\ntwo.\n.PP\nThree.\n",
		"So:\n\n  a b\n\n    c\n\nand": ".PP\nSo:\n.PP\n.nf\n.RS 2\na b\n\\&\n  c\n\\&\n.RE\n.fi\n.PP\nand\n",
		"  cmd --x 'a' \\ \"b\"":       ".PP\n.nf\n.RS 2\ncmd \\-\\-x \\(aqa\\(aq \\e \\(dqb\\(dq\n.RE\n.fi\n",
		".dot\n'quote":                 ".PP\n\\&.dot\n\\(aqquote\n",
	} {
		var b strings.Builder
		if manText(&b, text); b.String() != want {
			t.Errorf("%q:\n%s\nwant\n%s", text, b.String(), want)
		}
	}
}

// Each visible command has a page, and groff and mandoc accept all pages.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man", "man1")
	var out strings.Builder
	root := NewCommand(nil, &out, io.Discard)
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var files []string
	eachCommand(root, func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		file := filepath.Join(dir, manName(cmd)+".1")
		files = append(files, file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			return
		}
		for i, line := range strings.Split(string(text), "\n") {
			if !regexp.MustCompile(`^(\.(TH|SH|SS|PP|TP|nf|fi|RS 2|RE)( .*)?|[^.'].*|)$`).MatchString(line) {
				t.Errorf("%s:%d: a line that is taken for a request: %s", file, i+1, line)
			}
		}
	})
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(files) || !strings.Contains(out.String(), plaintext.Plural(len(files), "page")) {
		t.Errorf("%d files, expected %d (%v): %s", len(entries), len(files), err, &out)
	}
	if groff, err := exec.LookPath("groff"); err == nil {
		shown, err := exec.Command(groff, slices.Concat([]string{"-man", "-Kutf8", "-Tutf8", "-ww", "-P-c"}, files)...).CombinedOutput()
		if err != nil || strings.Contains(string(shown), "warning:") || strings.Contains(string(shown), "error:") {
			t.Errorf("groff: %v\n%.2000s", err, regexp.MustCompile(`(?m)^.*(warning|error):.*$`).FindAll(shown, -1))
		}
		for _, want := range []string{"coppice-task-add", "--not-before TIME", "coppice agent drain-ack", `agent.*' --type order.failed`} {
			if plain := regexp.MustCompile(`.\x08|\x1b\[[0-9;]*m`).ReplaceAllString(string(shown), ""); !strings.Contains(plain, want) {
				t.Errorf("the pages do not show %q", want)
			}
		}
	}
	if mandoc, err := exec.LookPath("mandoc"); err == nil {
		if said, err := exec.Command(mandoc, slices.Concat([]string{"-Tlint", "-Werror"}, files)...).CombinedOutput(); err != nil {
			t.Errorf("mandoc: %v\n%.2000s", err, said)
		}
	}
}
