package integrity

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

// language recognises tests by patterns. They are applied to a text without comments and without the
// content of strings. The patterns of tests have a group for the name; if it is empty, a string that
// follows is the name. Those of pairs have two groups: the assertion always holds if they are the
// same.
type language struct {
	syntax                                       syntax
	tests, skips, focus, asserts, trivial, pairs *regexp.Regexp
}

// anyOf returns a pattern with alternatives; "^" and "$" are the ends of lines. Without alternatives
// it matches nothing.
func anyOf(alternatives ...string) *regexp.Regexp {
	if len(alternatives) == 0 {
		alternatives = []string{`[^\s\S]`}
	}
	return regexp.MustCompile(`(?m)` + strings.Join(alternatives, "|"))
}

// languageOf returns the language of a file, by its name.
func languageOf(name string) *language {
	switch path.Ext(name) {
	case ".py":
		return python()
	case ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".svelte":
		return javascript()
	case ".rs":
		return rust()
	case ".sh", ".bash", ".bats", ".zsh":
		return shell()
	}
	return generic()
}

var python = sync.OnceValue(func() *language {
	return &language{
		syntax: syntax{line: "#", quotes: `"'`, triple: true},
		tests:  anyOf(`^[ \t]*(?:async[ \t]+)?def[ \t]+(test\w*)`),
		skips: anyOf(`\bmark\s*\.\s*(?:skip|skipif|xfail)\b`, `\bpytest\s*\.\s*(?:skip|xfail|importorskip)\b`,
			`\bunittest\s*\.\s*(?:skip\w*|SkipTest|expectedFailure)\b`, `\bskipTest\b`,
			`@(?:skip\w*|expectedFailure)\b`, `\bcollect_ignore\w*\b`, `\b__test__\s*=\s*False\b`,
			`\b(?:sys\.exit|os\._exit)\s*\(\s*0?\s*\)`),
		focus: anyOf(),
		asserts: anyOf(`\bassert\b`, `\.assert\w+\s*\(`, `\bassert_\w+\s*\(`, `\bpytest\s*\.\s*(?:raises|warns|fail)\b`,
			`\.fail\s*\(`),
		trivial: anyOf(`\bassert[ \t(]+(?:True|1|not[ \t]+(?:False|None|0))[ \t)]*(?:[,;]|$)`,
			`\bassert[ \t][^\n]*\bor[ \t]+True\b`, `\.assertTrue\s*\(\s*(?:True|1)\s*[,)]`,
			`\.assertFalse\s*\(\s*(?:False|0)\s*[,)]`),
		pairs: anyOf(`\bassert[ \t]+([\w."']+)[ \t]*==[ \t]*([\w."']+)[ \t]*(?:[,;]|$)`,
			`\.assertEqual\s*\(\s*([\w."']+)\s*,\s*([\w."']+)\s*[,)]`),
	}
})

var javascript = sync.OnceValue(func() *language {
	const start = `(?:^|[^.\w$])`
	return &language{
		syntax: syntax{line: "//", open: "/*", close: "*/", quotes: `"'`, long: "`"},
		tests: anyOf(start + `(?:it|test|specify)(?:\.(?:only|skip|todo|concurrent|sequential|failing|serial|` +
			`each\s*\([^)]*\)|each))*\s*\(()`),
		skips: anyOf(`\b(?:it|test|specify|describe|context|suite)(?:\.\w+)*`+
			`\.(?:skip|skipIf|runIf|todo|failing|fixme)\b`,
			start+`(?:xit|xtest|xdescribe|xcontext|xspecify|pending)\s*\(`, `\bthis\.skip\s*\(`,
			`\bprocess\.exit\s*\(\s*0?\s*\)`),
		focus: anyOf(`\b(?:it|test|specify|describe|context|suite)(?:\.\w+)*\.only\b`, start+`(?:fit|fdescribe)\s*\(`),
		asserts: anyOf(`\bexpect\w*\s*\(`, `\bassert(?:\.\w+)*\s*\(`, `\.should\b`,
			`\bt\.(?:is|not|deepEqual|true|false|truthy|falsy|throws\w*|regex|ok|equal|same|fail)\s*\(`),
		trivial: anyOf(`\bexpect\s*\(\s*(?:true|false|null|undefined|!?[\d.]+|'\s*'|"\s*")\s*\)`,
			`\bassert(?:\.ok)?\s*\(\s*(?:true|1|!0)\s*[,)]`),
		pairs: anyOf(`\bassert\.\w*[eE]qual\w*\s*\(\s*([\w.'"]+)\s*,\s*([\w.'"]+)\s*[,)]`,
			`\bexpect\s*\(\s*([a-zA-Z_][\w.]*)\s*\)\s*\.\s*to\w*\s*\(\s*([\w.]+)\s*\)`),
	}
})

var rust = sync.OnceValue(func() *language {
	return &language{
		syntax: syntax{line: "//", open: "/*", close: "*/", long: `"`, char: true},
		tests: anyOf(`#\[\s*(?:\w+::)*(?:test|rstest|test_case|bench)\b(?:\([^)]*\))?\s*\](?:\s*#\[[^\]]*\])*\s*` +
			`(?:pub\s+)?(?:async\s+)?(?:fn\s+)?(\w*)`),
		skips: anyOf(`#\[\s*ignore\b`, `#!?\[\s*cfg\s*\(\s*(?:any\s*\(\s*\)|FALSE|false)`,
			`\bprocess::exit\s*\(\s*0\s*\)`),
		focus:   anyOf(),
		asserts: anyOf(`\b(?:debug_|prop_)?assert\w*!`, `\bpanic!`, `\bunreachable!`, `\bshould_panic\b`, `\binsta::`),
		trivial: anyOf(`\bassert!\s*[({\[]\s*(?:true|!\s*false)\s*[,)}\]]`),
		pairs:   anyOf(`\bassert_eq!\s*\(\s*([\w."]+)\s*,\s*([\w."]+)\s*[,)]`),
	}
})

var shell = sync.OnceValue(func() *language {
	return &language{
		syntax: syntax{line: "#", word: true, long: `'"`},
		tests:  anyOf(`^[ \t]*(?:function[ \t]+)?(test\w*)[ \t]*\(\)`, `^[ \t]*@test\b()`),
		skips: anyOf(`\|\|[ \t]*(?:true|:)(?:[ \t;)]|$)`, `\bexit[ \t]+0\b`, `^[ \t]*skip\b`,
			`\bset[ \t]+\+e\b`),
		focus: anyOf(),
		asserts: anyOf(`\bassert\w*\b`, `(?:^|[^\w])\[\[?[ \t]`, `(?:^|[;&|][ \t]*|\bif[ \t]+|![ \t]*)test[ \t]`,
			`\bgrep[ \t]+-\w*q`, `\b(?:diff|cmp)[ \t]`, `\bexit[ \t]+[1-9$]`, `\bfail\b`, `\breturn[ \t]+[1-9]`),
		trivial: anyOf(`\[\[?[ \t]+true[ \t]+\]`),
		pairs:   anyOf(`\[\[?[ \t]+([\w"']+)[ \t]+(?:=|==|-eq)[ \t]+([\w"']+)[ \t]+\]`),
	}
})

// generic is for Java, Kotlin, C#, C++, PHP, Ruby, Elixir and others.
var generic = sync.OnceValue(func() *language {
	return &language{
		syntax: syntax{line: "//", open: "/*", close: "*/", quotes: `"'`},
		tests: anyOf(`@(?:Test|ParameterizedTest|RepeatedTest|Property)\b(?:\([^)]*\))?\s*`+
			`(?:(?:public|private|void|fun|final|static|async|Task)\s+)*(\w*)`,
			`\[(?:Test|Fact|Theory|TestMethod|TestCase)\b()`, `\bTEST(?:_F|_P)?\s*(\([^)]*\))`,
			`\bfunction\s+(test\w+)`, `^[ \t]*(?:it|test|specify|scenario)[ \t(]+()["'{]`,
			`^[ \t]*def[ \t]+(test\w*)`, `^sub[ \t]+(test\w*)`),
		skips: anyOf(`@(?:Disabled\w*|Ignored?)\b`, `\[Ignore\b`, `\bSkip\s*=`, `\bGTEST_SKIP\b`, `\bDISABLED_\w+`,
			`\bmarkTest(?:Skipped|Incomplete)\b`, `^[ \t]*(?:xit|xdescribe|xcontext|pending|skip)\b`, `@tag\s+:skip\b`,
			`\bassume(?:True|False|That)\s*\(`),
		focus: anyOf(`^[ \t]*(?:fit|fdescribe|fcontext)\b`, `\bfocus:\s*true`),
		asserts: anyOf(`\b[aA]ssert\w*\b`, `\b(?:ASSERT|EXPECT|REQUIRE|CHECK)(?:_\w+)?\s*\(`, `\bexpect\b`,
			`\.should\b`, `\bverify\s*\(`, `\brefute\w*\b`),
		trivial: anyOf(`\b[aA]ssert(?:True|That)?\s*\(?\s*(?:true|1)\s*(?:[,);]|$)`,
			`\b[aA]ssertFalse\s*\(\s*false\s*[,)]`, `\b(?:ASSERT|EXPECT)_TRUE\s*\(\s*(?:true|1)\s*\)`,
			`\bexpect\s*\(\s*(?:true|1)\s*\)`),
		pairs: anyOf(`\b(?:assertEquals|assert_equal|Assert\.AreEqual|Assert\.Equal|ASSERT_EQ|EXPECT_EQ)` +
			`\s*\(\s*([\w."]+)\s*,\s*([\w."]+)\s*[,)]`),
	}
})
