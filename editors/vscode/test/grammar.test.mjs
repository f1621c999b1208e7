// The grammar, read by the library and the regular expressions of VS Code itself.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";

// Where tools/deps.sh puts them.
const require = createRequire(new URL("../../../.cache/vscode/", import.meta.url));
const oniguruma = require("vscode-oniguruma");
const { INITIAL, Registry, parseRawGrammar } = require("vscode-textmate");

const here = (name) => new URL(name, import.meta.url);
const read = (name) => readFileSync(here(name), "utf8");

const wasm = readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
await oniguruma.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength));
const raw = read("../syntaxes/sage.tmLanguage.json");
const registry = new Registry({
  onigLib: Promise.resolve({
    createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
    createOnigString: (text) => new oniguruma.OnigString(text),
  }),
  loadGrammar: async (scope) => (scope === "source.sage" ? parseRawGrammar(raw, "sage.tmLanguage.json") : null),
});
const grammar = await registry.loadGrammar("source.sage");

// tokens are the parts of a text with their scopes, and the stack that is left.
function tokens(text, limit = 0) {
  const all = [];
  let stack = INITIAL;
  text.split("\n").forEach((line, number) => {
    const result = grammar.tokenizeLine(line, stack, limit);
    assert.ok(!result.stoppedEarly, `line ${number + 1} takes too long`);
    for (const t of result.tokens) {
      all.push({ line: number + 1, text: line.slice(t.startIndex, t.endIndex), scopes: t.scopes });
    }
    stack = result.ruleStack;
  });
  return { all, stack };
}

const innermost = (token) => token.scopes.at(-1);

// Each case is a line in which «…» marks what must have the scope that follows, one after the other.
const cases = [
  // Declarations and their names.
  ["«agent» «QueryMonitor» {", "storage.type.agent", "entity.name.type.agent"],
  ["«pub» «agent» «Worker» «receives» «WorkerMsg» «follows» «Chat» «as» «Client» {", "storage.modifier", "storage.type.agent", "entity.name.type.agent",
    "keyword.other", "entity.name.type", "keyword.other", "entity.name.type", "keyword.other.as", "entity.name.type"],
  ["«supervisor» «DbGuardian» {", "storage.type.supervisor", "entity.name.type.supervisor"],
  ["«record» «Point» { «x»: «Int», y: «Float» }", "storage.type.record", "entity.name.type.record", "variable.other.property", "support.type.primitive", "support.type.primitive"],
  ["«enum» «Shape» { «Circle»(Float), Dot }", "storage.type.enum", "entity.name.type.enum", "entity.name.type"],
  ["«const» «LIMIT»: Int = «5»;", "storage.type.const", "variable.other.constant", "constant.numeric.integer"],
  ["«fn» «describe»<«T»>(«visit»: Int, f: Fn(Int) -> «Bool», «last»: T) «->» String «fails» {", "storage.type.function", "entity.name.function", "entity.name.type",
    "variable.parameter", "support.type.primitive", "variable.parameter", "keyword.operator.arrow", "storage.modifier.fails"],
  ["«extern» «fn» «now»() -> Int «fails»", "storage.modifier.extern", "storage.type.function", "entity.name.function", "storage.modifier.fails"],
  ["«mod» «core»;", "storage.type.module", "entity.name.namespace"],
  ["«use» «core»::«{»Task, «build» «as» make};", "keyword.other.use", "entity.name.namespace", "punctuation.section.block", "variable.other", "keyword.other.as"],
  ["«use» Http, Fs", "keyword.other.use"],
  ["agent A «uses» Http {", "keyword.other.use"],
  ["«tool» «Search» { «fn» «find»(q: String) -> String }", "storage.type.tool", "entity.name.type.tool", "storage.type.function", "entity.name.function"],
  ["«protocol» «Chat» { Client -> Server: «Hello» }", "storage.type.protocol", "entity.name.type.protocol", "entity.name.type"],
  ["«handler» «Fast» «handles» «Infer» { temperature: 0.5 }", "storage.type.handler", "entity.name.type.handler", "keyword.other.handles", "entity.name.type.effect"],
  ["    «handler» «Infer»: «Fast»", "keyword.other.handler", "entity.name.type.effect", "entity.name.type.handler"],
  ["«test» \"«adds»\" {", "storage.type.test", "string.quoted.double"],
  ["«@»«serial» «test» 'x' {", "punctuation.definition.annotation", "storage.modifier.annotation", "storage.type.test"],
  ["«run» «DbGuardian»;", "keyword.other.run", "entity.name.type"],
  ["«belief» «x»: Int", "storage.modifier.belief", "variable.other.property"],

  // Agents.
  ["    «@»«persistent» «check_count»: «Int»", "punctuation.definition.annotation", "storage.modifier.annotation", "variable.other.property", "support.type.primitive"],
  ["    @persistent log: «List»<«String»>", "support.type", "support.type.primitive"],
  ...["waking", "start", "pause", "resume", "stop", "resting"].map((e) => [`    «on» «${e}» {`, "storage.type.event", "entity.name.function.event"]),
  ["    «on» «message»(«m»: «Task») {", "storage.type.event", "entity.name.function.event", "variable.parameter", "entity.name.type"],
  ["    «on» «error»(«e») {", "storage.type.event", "entity.name.function.event", "variable.parameter"],
  ["    «self»«.»«count»«.»«set»(«count» + 1);", "variable.language", "punctuation.accessor", "variable.other.property", "punctuation.accessor", "entity.name.function.method", "variable.other"],
  ["    «super»::«f»();", "variable.language", "entity.name.function"],

  // Supervisors.
  ...["OneForOne", "OneForAll", "RestForOne"].map((s) => [`    «strategy»: «${s}»`, "keyword.other.strategy", "constant.language.strategy"]),
  ...["Permanent", "Transient", "Temporary"].map((r) => [`    «QueryMonitor» { «restart»: «${r}» «check_count»: 0 }`, "entity.name.type", "keyword.other.restart", "constant.language.restart", "variable.other.property"]),
  ["    «children» {", "keyword.other.children"],

  // Statements and expressions.
  ["«let» «x»: Int «=» «-»«1»;", "storage.type", "variable.other.property", "keyword.operator.assignment", "keyword.operator.arithmetic", "constant.numeric.integer"],
  ["n«-»«1» «%» «2.5» «==» 0", "keyword.operator.arithmetic", "constant.numeric.integer", "keyword.operator.arithmetic", "constant.numeric.float", "keyword.operator.comparison"],
  ["x «+=» 1; s «++=» t; a «++» b", "keyword.operator.assignment.compound", "keyword.operator.assignment.compound", "keyword.operator.concatenation"],
  ["a «&&» «!»b «||» c", "keyword.operator.logical", "keyword.operator.logical", "keyword.operator.logical"],
  ["«|»«x»: Int«|» x * 2", "punctuation.definition.parameters", "variable.other.property", "punctuation.definition.parameters"],
  ["«if» a «<=» b { } «else» «if» c { }", "keyword.control.conditional", "keyword.operator.comparison", "keyword.control.conditional", "keyword.control.conditional"],
  ["«for» (k, v) «in» xs { «break»; «continue»; }", "keyword.control.loop", "keyword.control.loop", "keyword.control.loop", "keyword.control.loop"],
  ["«while» «true» { } «loop» { }", "keyword.control.loop", "constant.language.boolean", "keyword.control.loop"],
  ["«match» x { Shape«::»«Circle»(r) «=>» r, «_» => «false» }", "keyword.control.conditional", "punctuation.separator.path", "variable.other.enummember", "keyword.operator.match", "variable.other", "constant.language.boolean"],
  ["«return» «Some»(x); «None»; «Ok»(1); «Err»('x')", "keyword.control.flow", "constant.language.variant", "constant.language.variant", "constant.language.variant", "constant.language.variant"],
  ["«yield»(«-»1);", "keyword.control.flow", "keyword.operator.arithmetic"],
  ["«try» f() «catch»(err) { «fail» 'x'; }", "keyword.control.exception", "keyword.control.exception", "keyword.control.exception"],
  ["«retry»(3, «delay»: max(1, 2), «on»: [ErrorKind«.»«Llm»]) { 1 }", "keyword.control.exception", "keyword.other.retry", "keyword.other.retry", "punctuation.accessor", "variable.other.property"],
  ["let h = «summon» «Worker» { «id»: 1 };", "keyword.other.summon", "entity.name.type.agent", "variable.other.property"],
  ["«await» h «timeout»(500)", "keyword.control.await", "keyword.control.timeout"],
  ["«send»(h, «Task»::New); «reply»(1); «receive»(); «checkpoint»(); «trace»(\"x\"); «span» \"x\" { }", "keyword.other", "entity.name.type", "keyword.other", "keyword.other",
    "keyword.other", "keyword.other", "keyword.other.span"],
  ["«divine»(\"{x}\" -> Answer); «infer»(\"x\")", "keyword.other.divine", "keyword.other.divine"],
  ["«mock» «divine» -> 'x'; «mock» «infer» -> 'x'; «mock» «tool» «Http»«.»«get» -> 1;", "keyword.other.mock", "keyword.other.divine", "keyword.other.mock", "keyword.other.divine",
    "keyword.other.mock", "keyword.other.tool", "entity.name.type.tool", "punctuation.accessor", "variable.other.property"],
  ["«print»(«str_len»(s)); «reconnect»(); «assert_eq»(1, 1); map«::»<Int>(x)", "support.function", "support.function", "entity.name.function", "support.function", "punctuation.separator.path"],
  ["«PI» * «MS_PER_HOUR» + «MY_LIMIT»", "support.constant", "support.constant", "variable.other.constant"],
  ["t«.»«0»«.»«1»", "punctuation.accessor", "variable.other.property", "punctuation.accessor", "variable.other.property"],
  ...["Int", "Float", "Bool", "String", "Unit"].map((t) => [`let x: «${t}» = y;`, "support.type.primitive"]),
  ...["List", "Option", "Oracle", "Agent", "Error", "ErrorKind", "Fn", "Map", "Result"].map((t) => [`let x: «${t}»<Int> = y;`, "support.type"]),

  // A word is a name where it cannot be more, and no part of one.
  ["e.«message»; e.«start»(); r.«match»", "variable.other.property", "entity.name.function.method", "variable.other.property"],
  ["Log { «message»: m, «test»: t, «span»: 1, «restart»: 3 }", "variable.other.property", "variable.other.property", "variable.other.property", "variable.other.property"],
  ["«message» = «span» + «handler» + «test»;", "variable.other", "variable.other", "variable.other", "variable.other"],
  ["«iffy» + «agents» + «selfish» + «x1»", "variable.other", "variable.other", "variable.other", "variable.other"],

  // Text.
  ["x «//»« agent { \"»", "punctuation.definition.comment", "comment.line.double-slash"],
  ["«\"»«a b»«\\n»«\\x1b»«\\u{1f33f}»«\\{»«no}»«\"»", "punctuation.definition.string.begin", "string.quoted.double", "constant.character.escape", "constant.character.escape",
    "constant.character.escape", "constant.character.escape", "string.quoted.double", "punctuation.definition.string.end"],
  ["'«{no} // no»«\\'»«\\q»' «fn»", "string.quoted.single", "constant.character.escape", "invalid.illegal.escape", "storage.type"],
  ["\"«at v»«{»«self»«.»«version»«.»«get»()«}»«!»\"", "string.quoted.double", "punctuation.section.interpolation.begin", "variable.language", "punctuation.accessor",
    "variable.other.property", "punctuation.accessor", "entity.name.function.method", "punctuation.section.interpolation.end", "string.quoted.double"],
  ["\"{f(\"«in»{«g»(\"«deep»\")}\", '«}»', {k: «1»})} «out»\"; «let» x = 1", "string.quoted.double", "entity.name.function", "string.quoted.double", "string.quoted.single", "constant.numeric.integer",
    "string.quoted.double", "storage.type"],
  ["\"«{}» «{\\n»\"; «let» x", "string.quoted.double", null, "storage.type"],
];

// marked takes the marks out of a line and says where they were.
function marked(line) {
  const spans = [];
  let text = "";
  for (const part of line.split(/([«»])/)) {
    if (part === "«") spans.push({ start: text.length });
    else if (part === "»") spans.at(-1).end = text.length;
    else text += part;
  }
  return { text, spans };
}

for (const [line, ...wanted] of cases) {
  test(line, () => {
    const { text, spans } = marked(line);
    assert.equal(wanted.length, spans.length, "a scope for each mark");
    const { tokens: found } = grammar.tokenizeLine(text, INITIAL);
    spans.forEach(({ start, end }, i) => {
      if (wanted[i] === null) return;
      const token = found.find((t) => t.startIndex <= start && t.endIndex >= end);
      assert.ok(token, `${text.slice(start, end)} is one token`);
      assert.equal(innermost(token), wanted[i] + ".sage", text.slice(start, end));
    });
  });
}

test("every expression is one, every name exists, and each is used", () => {
  const used = new Set(["code"]);
  const walk = (rule) => {
    if (Array.isArray(rule)) return rule.forEach(walk);
    if (rule === null || typeof rule !== "object") return;
    for (const key of ["match", "begin", "end"]) {
      if (rule[key] !== undefined) new oniguruma.OnigScanner([rule[key]]);
    }
    if (rule.include) used.add(rule.include.slice(1));
    Object.values(rule).forEach(walk);
  };
  const parsed = JSON.parse(raw);
  walk(parsed);
  assert.deepEqual([...used].sort(), Object.keys(parsed.repository).sort());
  assert.throws(() => new oniguruma.OnigScanner(["("]), "an expression that is none would not be noticed");
});

test("the extension names files that there are, and the grammar's own scope", () => {
  const manifest = JSON.parse(read("../package.json"));
  const [language] = manifest.contributes.languages;
  const [contributed] = manifest.contributes.grammars;
  assert.deepEqual(language.extensions, [".sg"]);
  assert.equal(contributed.language, language.id);
  assert.equal(contributed.scopeName, JSON.parse(read("../" + contributed.path)).scopeName);
  assert.equal(JSON.parse(read("../" + language.configuration)).comments.lineComment, "//");
});

const root = "../../../";
const programs = [
  "supervision.sg",
  root + "internal/scaffold/project/src/main.sg",
  ...readdirSync(here(root + "examples"), { recursive: true }).filter((f) => f.endsWith(".sg")).map((f) => root + "examples/" + f),
];
// What these words are is the same wherever the language's own code has them.
const everywhere = {
  agent: "storage.type.agent", supervisor: "storage.type.supervisor", children: "keyword.other.children", on: "storage.type.event", yield: "keyword.control.flow",
  let: "storage.type", if: "keyword.control.conditional", self: "variable.language", persistent: "storage.modifier.annotation", run: "keyword.other.run",
  Permanent: "constant.language.restart", Transient: "constant.language.restart", OneForOne: "constant.language.strategy", Int: "support.type.primitive",
};

for (const program of programs) {
  test("program " + program, () => {
    const { all, stack } = tokens(read(program));
    assert.equal(stack.depth, 1, "something was left open");
    let seen = 0;
    for (const token of all) {
      const scope = innermost(token);
      assert.ok(!scope.startsWith("invalid"), `${program}:${token.line}: ${token.text} is ${scope}`);
      if (token.scopes.length === 1) assert.match(token.text, /^\s*$/, `${program}:${token.line}: ${token.text} has no scope`);
      const word = token.text.trim();
      if (!Object.hasOwn(everywhere, word) || scope.startsWith("comment") || scope.startsWith("string")) continue;
      assert.equal(scope, everywhere[word] + ".sage", `${program}:${token.line}: ${word}`);
      seen++;
    }
    assert.ok(seen > 5, `only ${seen} words of the language`);
  });
}

test("the seeds' names and interpolations", () => {
  const { all } = tokens(read("supervision.sg"));
  const texts = (scope) => [...new Set(all.filter((t) => innermost(t) === scope + ".sage").map((t) => t.text))];
  assert.deepEqual(texts("entity.name.type.agent"), ["DatabaseSteward", "QueryMonitor", "PoolMonitor"]);
  assert.deepEqual(texts("entity.name.type.supervisor"), ["AppSupervisor", "WebApp", "TightlyCoupled", "Pipeline", "DbGuardian", "DatabaseSection", "ApiSection", "AppRoot"]);
  assert.deepEqual(texts("entity.name.function.event"), ["waking", "start", "error"]);
  const inside = all.filter((t) => t.scopes.includes("meta.embedded.line.sage")).map((t) => t.text).join("");
  assert.equal(inside, "self.schema_version.get()self.check_count.get()countalerts");
});

test("what is broken or huge is highlighted, too", () => {
  const hostile = ["{", "(", "\"{", "'", "\\", "on ", "fn f<", "fn f(", "::<", "a", "a::", "A_", "//", "@", "supervisor ", "retry(", "\"\\", "f::<a", "\u0000", "é", "💥", " "];
  for (const piece of hostile) {
    tokens(piece.repeat(1000) + "\nlet x = 1;\n}", 60000); // milliseconds for a line; the slowest takes one second
  }
});
