package integrity

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/change"
	"github.com/coppice-dev/coppice/internal/exectest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// strong are tests in each language that the cases below make weaker.
var strong = map[string]string{
	"a_test.go": `package a

import "testing"

func TestOne(t *testing.T) {
	if got := one(); got != 1 {
		t.Errorf("%d", got)
	}
	t.Run("sub", func(t *testing.T) { require.Equal(t, two(), 2) })
}

func TestTwo(t *testing.T) { assert.True(t, ok()) }
`,
	"test_a.py": `import pytest
class TestA:
    def test_one(self):
        """assert in a text"""
        assert one() == 1  # assert x
    async def test_two(self):
        self.assertEqual(two(), 2)
def helper(): pass
`,
	"a.test.ts": `describe('a', () => {
  it('one', () => { expect(one()).toBe(1); }); // it('not')
  test("two", async () => { assert.equal(two(), 2) });
  /* it('no') */ pattern.test('x');
});
`,
	"src/lib.rs": `fn lib<'a>(x: &'a str) -> char { '"' }
#[cfg(test)]
mod tests {
    #[test]
    fn one() { assert_eq!(one(), 1); }
    #[tokio::test]
    async fn two() { assert!(ok(), "no // comment"); }
}
`,
	"test/run.bats": `@test "one" {
  run one
  [ "$status" = 0 ]
}
@test "two" { grep -q two file; } # [ x ]
`,
	"ATest.java": `class ATest {
  @Test public void one() { assertEquals(1, one()); }
  @Test
  void two() { assertTrue(ok()); }
}
`,
	"a_test.cc": "TEST(A, One) { EXPECT_EQ(one(), 1); }\nTEST_F(B, Two) { ASSERT_TRUE(ok()); }\n",
}

func TestCountStrong(t *testing.T) {
	t.Parallel()
	for name, text := range strong {
		c := count(name, text)
		if want := map[bool]int{true: 3, false: 2}[name == "a_test.go"]; c.total() != want {
			t.Errorf("%s: %d tests, want %d: %v", name, c.total(), want, c.tests)
		}
		if want := map[bool]int{true: 3, false: 2}[name == "a_test.go"]; c.asserts != want {
			t.Errorf("%s: %d assertions, want %d", name, c.asserts, want)
		}
		if c.skips+c.focus+c.trivial != 0 || c.problem != "" || c.condition != "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// rules are those of a review.
func rules(t *testing.T) change.Rules {
	t.Helper()
	r, err := change.NewRules(change.Maintenance, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// weakened returns the findings about a file whose content changed, one a line.
func weakened(t *testing.T, name, before, after string) string {
	t.Helper()
	f := change.File{Path: name, Status: change.Modified, Old: change.Side{Mode: change.Regular, ID: "1"},
		New: change.Side{Mode: change.Regular, ID: "2"}}
	return lines(compare([]change.File{f}, map[string]string{"1": before, "2": after}, rules(t)))
}

func lines(all []change.Finding) string {
	var b strings.Builder
	for _, f := range all {
		b.WriteString(string(f.Rule) + ": " + f.Found + "\n")
	}
	return b.String()
}

func TestWeaker(t *testing.T) {
	t.Parallel()
	const fewerTwo = "fewer tests: 2 tests became 1, without two\nfewer assertions: 2 assertions became 1\n"
	for _, tt := range []struct{ file, old, new, want string }{
		{"a_test.go", "", "", ""},
		{"a_test.go", "func TestTwo", "func testTwo", "fewer tests: 3 tests became 2, without TestTwo\n"},
		{"a_test.go", "func TestTwo", "func TestThree", ""},
		{"a_test.go", "func TestTwo(t *testing.T) { assert.True(t, ok()) }",
			"// func TestTwo(t *testing.T) { assert.True(t, ok()) }",
			"fewer tests: 3 tests became 2, without TestTwo\nfewer assertions: 3 assertions became 2\n"},
		{"a_test.go", `t.Run("sub", func(t *testing.T) { require.Equal(t, two(), 2) })`, "",
			"fewer tests: 3 tests became 2, without sub\nfewer assertions: 3 assertions became 2\n"},
		{"a_test.go", "{ assert.True", "{ t.Skip(); assert.True", "more skips: 0 skips became 1\n"},
		{"a_test.go", "{ assert.True", "{ return; assert.True", "more skips: 0 skips became 1\n"},
		{"a_test.go", "assert.True(t, ok())", "assert.True(t, true)",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 3 assertions became 2\n"},
		{"a_test.go", "two(), 2)", "2, 2)",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 3 assertions became 2\n"},
		{"a_test.go", "if got := one(); got != 1 {", "if got := one(); false {",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 3 assertions became 2\n"},
		{"a_test.go", `t.Errorf("%d", got)`, `_ = fmt.Errorf("%d", got)`, "fewer assertions: 3 assertions became 2\n"},
		{"a_test.go", "package a", "//go:build ignore\n\npackage a",
			"excluded: it is only built with //go:build ignore\n"},
		{"a_test.go", "package a", "package a {",
			"unreadable test: it cannot be parsed: 1:11: expected ';', found '{'\n"},
		{"a_test.go", "func TestTwo", "func TestMain(m *testing.M) { os.Exit(0) }\nfunc TestTwo",
			"more skips: 0 skips became 1\n"},
		{"test_a.py", "def test_two", "def check_two", "fewer tests: 2 tests became 1, without test_two\n"},
		{"test_a.py", "    async def test_two(self):\n        self.assert",
			"#    async def test_two(self):\n#        self.assert",
			"fewer tests: 2 tests became 1, without test_two\nfewer assertions: 2 assertions became 1\n"},
		{"test_a.py", "class TestA", "'''\nclass TestA",
			"fewer tests: 2 tests became 0, without test_one, test_two\nfewer assertions: 2 assertions became 0\n"},
		{"test_a.py", "    async", "    @pytest.mark.skip(reason='x')\n    async", "more skips: 0 skips became 1\n"},
		{"test_a.py", "    async", "    @pytest.mark.xfail\n    async", "more skips: 0 skips became 1\n"},
		{"test_a.py", "import pytest", "import pytest\npytestmark = pytest.mark.skipif(True)",
			"more skips: 0 skips became 1\n"},
		{"test_a.py", "assert one() == 1", "assert True",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 2 assertions became 1\n"},
		{"test_a.py", "assert one() == 1", "assert one() == 1 or True",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 2 assertions became 1\n"},
		{"test_a.py", "assert one() == 1", "assert 1 == 1",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 2 assertions became 1\n"},
		{"test_a.py", "assertEqual(two(), 2)", "assertEqual(2, 2)",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 2 assertions became 1\n"},
		{"test_a.py", "assert one() == 1", "one()", "fewer assertions: 2 assertions became 1\n"},
		{"a.test.ts", "it('one'", "it.skip('one'", "more skips: 0 skips became 1\n"},
		{"a.test.ts", "it('one'", "xit('one'",
			"fewer tests: 2 tests became 1, without one\nmore skips: 0 skips became 1\n"},
		{"a.test.ts", "it('one'", "it.only('one'", "focus: 0 tests that keep others from running became 1\n"},
		{"a.test.ts", "describe(", "describe.only(", "focus: 0 tests that keep others from running became 1\n"},
		{"a.test.ts", "  test(\"two", "  // test(\"two", fewerTwo},
		{"a.test.ts", "expect(one()).toBe(1)", "expect(true).toBe(true)",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 2 assertions became 1\n"},
		{"a.test.ts", "expect(one()).toBe(1)", "expect(x).toBe(x)",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 2 assertions became 1\n"},
		{"a.test.ts", "assert.equal(two(), 2)", "two()", "fewer assertions: 2 assertions became 1\n"},
		{"src/lib.rs", "#[test]", "#[test]\n    #[ignore]", "more skips: 0 skips became 1\n"},
		{"src/lib.rs", "#[cfg(test)]", "#[cfg(any())]", "more skips: 0 skips became 1\n"},
		{"src/lib.rs", "#[tokio::test]", "", "fewer tests: 2 tests became 1, without two\n"},
		{"src/lib.rs", "assert_eq!(one(), 1)", "assert_eq!(1, 1)",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 2 assertions became 1\n"},
		{"src/lib.rs", "assert!(ok(),", "assert!(true,",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 2 assertions became 1\n"},
		{"src/lib.rs", "    #[test]\n", "/*   #[test]*/\n", "fewer tests: 2 tests became 1, without one\n"},
		{"test/run.bats", "grep -q two file", "grep -q two file || true", "more skips: 0 skips became 1\n"},
		{"test/run.bats", "run one", "skip\n  run one", "more skips: 0 skips became 1\n"},
		{"test/run.bats", "run one", "exit 0", "more skips: 0 skips became 1\n"},
		{"test/run.bats", `"$status" = 0`, "1 = 1",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 2 assertions became 1\n"},
		{"test/run.bats", `@test "two"`, `# @test "two"`, fewerTwo},
		{"ATest.java", "@Test\n", "@Disabled @Test\n", "more skips: 0 skips became 1\n"},
		{"ATest.java", "  @Test public void one() { assertEquals(1", "//  @Test public void one() { assertEquals(1",
			"fewer tests: 2 tests became 1, without one\nfewer assertions: 2 assertions became 1\n"},
		{"ATest.java", "assertEquals(1, one())", "assertEquals(1, 1)",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 2 assertions became 1\n"},
		{"a_test.cc", "EXPECT_EQ(one(), 1)", "GTEST_SKIP(); EXPECT_EQ(one(), 1)", "more skips: 0 skips became 1\n"},
		{"a_test.cc", "ASSERT_TRUE(ok())", "ASSERT_TRUE(true)",
			"trivial assertion: 0 assertions that always hold became 1\nfewer assertions: 2 assertions became 1\n"},
	} {
		before := strong[tt.file]
		after := strings.Replace(before, tt.old, tt.new, 1)
		if before == after && tt.want != "" {
			t.Errorf("%s: %q is not in the file", tt.file, tt.old)
		}
		if d := cmp.Diff(tt.want, weakened(t, tt.file, before, after)); d != "" {
			t.Errorf("%s, %q became %q (-want +got):\n%s", tt.file, tt.old, tt.new, d)
		}
		if got := weakened(t, tt.file, after, before); strings.Contains(got, "fewer") &&
			!strings.Contains(tt.old+tt.new, "TestThree") ||
			strings.Contains(got, "became 1\n") && strings.Contains(got, "skips") {
			t.Errorf("%s, the other way around: %s", tt.file, got)
		}
	}
}

// Tests may move to another file.
func TestMovedTests(t *testing.T) {
	t.Parallel()
	files := []change.File{
		{Path: "a_test.go", Status: change.Deleted, Old: change.Side{Mode: change.Regular, ID: "1"}},
		{Path: "b_test.go", Status: change.Added, New: change.Side{Mode: change.Regular, ID: "2"}},
	}
	contents := map[string]string{"1": strong["a_test.go"], "2": strong["a_test.go"]}
	if got := lines(compare(files, contents, rules(t))); got != "" {
		t.Errorf("all are moved: %s", got)
	}
	contents["2"] = strings.Replace(strong["a_test.go"], "TestTwo", "TestThree", 1)
	if got, want := lines(compare(files, contents,
		rules(t))), "fewer tests: 3 tests became 0, without TestTwo\n"; got != want {
		t.Errorf("two are moved: %q, want %q", got, want)
	}
	contents["2"] = strings.Replace(strong["a_test.go"], "assert.True(t, ok())", "", 1)
	if got, want := lines(compare(files, contents,
		rules(t))), "fewer assertions: 3 assertions became 0\n"; got != want {
		t.Errorf("without an assertion: %q, want %q", got, want)
	}
}

func TestManifest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ file, before, after, want string }{
		{"package.json", `{"scripts":{"test":"jest"},"version":"1"}`, `{"version":"2", "scripts":{"test": "jest"}}`,
			""},
		{"a/package.json", `{"scripts":{"test":"jest"}}`, `{"scripts":{"test":"true"}}`,
			"test command: scripts was changed\n"},
		{"package.json", `{}`, `{"jest":{"testMatch":[]}}`, "test command: jest was changed\n"},
		{"package.json", `{}`, `{`, "test command: it can no longer be parsed\n"},
		{"package.json", `{`, `{`, ""},
		{"pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-x'\n[project]\nversion = '1'\n",
			"[tool.pytest.ini_options]\naddopts = '-x'\n[project]\nversion = '2'\n", ""},
		{"pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-x'\n",
			"[tool.pytest.ini_options]\naddopts = '-k none'\n", "test command: tool.pytest was changed\n"},
		{"Cargo.toml", "[package]\nname = 'a'\n", "[package]\nname = 'a'\nautotests = false\n",
			"test command: package.autotests was changed\n"},
		{"Cargo.toml", "tool = 1\n[lib]\ntest = true\n", "tool = 1\nlib = 2\n", "test command: lib.test was changed\n"},
		{"other.json", `{"scripts":1}`, `{"scripts":2}`, ""},
	} {
		if got := weakened(t, tt.file, tt.before, tt.after); got != tt.want {
			t.Errorf("%s: %q became %q: %q, want %q", tt.file, tt.before, tt.after, got, tt.want)
		}
	}
}

// The changes of a process in a real repository.
func TestCheck(t *testing.T) {
	t.Parallel()
	exectest.Need(t, "git")
	dir := t.TempDir()
	sh := func(script string) {
		t.Helper()
		cmd := exec.Command("sh", "-euc", script)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, ".git", "none"),
			"GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t.invalid", "GIT_COMMITTER_NAME=t",
			"GIT_COMMITTER_EMAIL=t@t.invalid"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	for name, text := range strong {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sh(`mkdir -p pkg/testdata; echo one >pkg/testdata/out.golden; echo data >pkg/testdata/in; echo '{"scripts":{"test":"jest"}}' >package.json
		git init -q; git add -A; git commit -qm first`)
	sh(`git mv a_test.go a_checks.go; sed -i 's/it(/it.only(/' a.test.ts; echo two >pkg/testdata/out.golden; echo new >pkg/testdata/new
		rm ATest.java pkg/testdata/in; truncate -s 5M test/large.bats; sed -i 's/jest/true/' package.json; git mv test_a.py test_b.py
		git mv a_test.cc a_windows_test.cc; echo 'garbage' >src/lib.rs`)
	c, err := change.Read(t.Context(), dir, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	r := rules(t)
	found, err := Check(t.Context(), c, r)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, string(f.Rule)+": "+f.String())
		if f.Review {
			t.Errorf("in maintenance mode a person may approve %s", f)
		}
	}
	want := []string{
		"not a test: a_test.go: a test was renamed to a_checks.go; allowed: names by which tests are found",
		"test command: package.json: scripts was changed; allowed: the commands and settings of checks that there were before",
		"expected output: pkg/testdata/in: expected output was deleted; allowed: tests that hold the output to what it was",
		"expected output: pkg/testdata/out.golden: expected output was modified; allowed: tests that hold the output to what it was",
		"unreadable test: test/large.bats: 5,242,880 bytes; allowed: at most 1 MiB of a test",
		"fewer tests: ATest.java: 2 tests became 0, without one, two; allowed: as many tests as before",
		"fewer assertions: ATest.java: 2 assertions became 0; allowed: as many assertions as before",
		"focus: a.test.ts: 0 tests that keep others from running became 1; allowed: no more than before",
		"fewer tests: src/lib.rs: 2 tests became 0, without one, two; allowed: as many tests as before",
		"fewer assertions: src/lib.rs: 2 assertions became 0; allowed: as many assertions as before",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	r.Kind = change.Evolution
	if found, err = Check(t.Context(), c, r); err != nil || len(found) != len(want) || change.Refused(found) {
		t.Errorf("in evolution mode: %v, %v", found, err)
	}
}

func TestPlatform(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a_test.go": "", "a_windows_test.go": "windows", "x/a_linux_arm64_test.go": "linux arm64", "linux_test.go": "",
		"a_linux.go": "linux",
	} {
		if got := platform(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Adversarial texts take linear time.
func TestStripIsLinear(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{`"" `, `"`, `'`, "`", `\"`, "/*", "//", `"""`, "'''", "#[", "''"} {
		text := strings.Repeat(unit, maxSource/len(unit)) // quadratic time would be hours
		for _, name := range []string{"a.py", "a.js", "a.rs", "a.sh", "A.java"} {
			languageOf(name).syntax.strip(text)
		}
	}
}

func FuzzCount(f *testing.F) {
	for name, text := range strong {
		f.Add(name, text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		c := count(name, text)
		if c.asserts < 0 || c.total() < 0 {
			t.Errorf("%+v", c)
		}
		if code := languageOf(name).syntax.strip(text); len(code) != len(text) {
			t.Errorf("%q became %q", text, code)
		}
	})
}
