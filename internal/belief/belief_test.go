package belief

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/store/memory"
	"github.com/coppice-dev/coppice/internal/store/storetest"
	"github.com/coppice-dev/coppice/internal/value"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, s store.Store) *Store {
	t.Helper()
	b, problems, err := Open(context.Background(), s)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return b
}

func begin(t testing.TB, b *Store, path string, incarnation uint64) []Problem {
	t.Helper()
	problems, err := b.Begin(context.Background(), path, Life{incarnation, fmt.Sprintf("%s#%d", path, incarnation)})
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

func set(b *Store, path string, by uint64, pairs ...string) error {
	s := Step{Path: path, By: by, Set: map[string]value.Value{}}
	for _, p := range pairs {
		name, v, _ := strings.Cut(p, "=")
		s.Set[name] = value.Value(v)
	}
	return b.Apply(context.Background(), s)
}

func mustSet(t testing.TB, b *Store, path string, by uint64, pairs ...string) {
	t.Helper()
	if err := set(b, path, by, pairs...); err != nil {
		t.Fatal(err)
	}
}

// text returns the beliefs as an incarnation, or a person, sees them.
func text(t testing.TB, b *Store, path string, by uint64) string {
	t.Helper()
	list, err := b.Get(context.Background(), path, by)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, l := range list {
		all = append(all, l.Name+"="+string(l.Value))
	}
	return strings.Join(all, " ")
}

func want(t testing.TB, what string, err, target error, parts ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v, want %v", what, err, target)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q does not say %q", what, err, part)
		}
	}
}

var monitor = []spec.Belief{
	{Name: "check_count", Type: value.Int, Persistent: true},
	{Name: "threshold", Type: value.Int, Initial: "100"},
	{Name: "note", Type: value.String, Initial: `"none"`, Persistent: true},
	{Name: "seen", Type: value.List},
}

// An incarnation starts from the stored value, else the initial value, else the zero value of the
// type. Beliefs that are not persistent start from their initial value.
func TestStartOfIncarnation(t *testing.T) {
	s := memory.New()
	b := open(t, s)
	b.Declare("app/m", monitor)
	begin(t, b, "app/m", 1)
	if got, want := text(t, b, "app/m", 1), `check_count=0 note="none" seen=[] threshold=100`; got != want {
		t.Errorf("first start: %s, want %s", got, want)
	}
	if all, _, _ := s.Snapshot(context.Background(), ""); len(all) != 0 {
		t.Errorf("initial values were written: %v", all)
	}
	mustSet(t, b, "app/m", 1, "check_count=7", `seen=["x"]`, "threshold=5")
	if got, want := text(t, b, "app/m", 1), `check_count=7 note="none" seen=["x"] threshold=5`; got != want {
		t.Errorf("after a step: %s, want %s", got, want)
	}

	// Another daemon adopts the incarnation, which keeps all its values.
	b = open(t, s)
	b.Declare("app/m", monitor)
	begin(t, b, "app/m", 1)
	if got, want := text(t, b, "app/m", 1), `check_count=7 note="none" seen=["x"] threshold=5`; got != want {
		t.Errorf("taken over: %s, want %s", got, want)
	}

	for _, reopened := range []bool{false, true} {
		if reopened {
			b = open(t, s)
			b.Declare("app/m", monitor)
		}
		b.End("app/m", 1)
		begin(t, b, "app/m", 2)
		if got, want := text(t, b, "app/m", 2), `check_count=7 note="none" seen=[] threshold=100`; got != want {
			t.Errorf("restarted, reopened %v: %s, want %s", reopened, got, want)
		}
		want(t, "predecessor", set(b, "app/m", 1, "check_count=8"), ErrStale, "incarnation 1 of app/m", "incarnation 2 is open")
	}
	// Numbers repeat in the next run; lives do not.
	if _, err := b.Begin(context.Background(), "app/m", Life{2, "another"}); err != nil {
		t.Fatal(err)
	}
	if got, want := text(t, b, "app/m", 2), `check_count=7 note="none" seen=[] threshold=100`; got != want {
		t.Errorf("the same number in another life: %s, want %s", got, want)
	}
}

// The beliefs of an agent that another one has summoned are open as long as those of the other one.
func TestSummoned(t *testing.T) {
	ctx := t.Context()
	b := open(t, memory.New())
	begin(t, b, "app/m", 1)
	for range 2 { // it may be opened again
		if all, err := b.OpenSummoned(ctx, "app/m", 1, "Helper/Tool-2", []string{"n"}); err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
	}
	mustSet(t, b, "app/m/Helper/Tool-2", 1, "n=7")
	want(t, "undeclared", set(b, "app/m/Helper/Tool-2", 1, "other=7"), ErrNotFound, "other")
	b.End("app/m", 2)
	mustSet(t, b, "app/m/Helper/Tool-2", 1, "n=8")
	b.End("app/m", 1)
	want(t, "after the end", set(b, "app/m/Helper/Tool-2", 1, "n=9"), ErrStale, "none is open")

	_, err := b.OpenSummoned(ctx, "app/m", 1, "Helper", nil)
	want(t, "by an agent that has ended", err, ErrStale, "none is open")
	begin(t, b, "app/m", 2)
	all, err := b.OpenSummoned(ctx, "app/m", 2, "Helper/Tool-2", []string{"n"})
	if err != nil || KeptOf(all)["n"] != "8" {
		t.Errorf("the next one begins with %v, %v", all, err)
	}
	for _, below := range []string{"", ".", "..", "../x", "/x", "x/", "a/../../b"} {
		_, err := b.OpenSummoned(ctx, "app/m", 2, below, []string{"n"})
		want(t, below, err, ErrRefused, "")
	}
	_, err = b.OpenSummoned(ctx, "app/m", 2, "x", []string{"no\nname"})
	want(t, "a name", err, ErrRefused, "")
	if _, err := b.OpenSummoned(ctx, "app/m", 2, "x", make([]string, MaxBeliefs+1)); err == nil {
		t.Error("any number of beliefs")
	}
}

// No two beliefs share a record: siblings, children and beliefs of one name, names that look like
// keys.
func TestNoCollisions(t *testing.T) {
	s := memory.New()
	b := open(t, s)
	paths := []string{"app/a", "app/a/b", "app/b", "app/a%2Fb", "app/a b", "app/x.y", "app/x", "app/A", "app/=", "app/ä", "app/a\u0308"}
	names := []string{"b", "a", "record", "x.y", "y", "_", "B"}
	for i, path := range paths {
		for j, name := range names {
			mustSet(t, b, path, Person, fmt.Sprintf("%s=%d", name, 100*i+j))
		}
	}
	for _, st := range []*Store{b, open(t, s)} {
		for i, path := range paths {
			for j, name := range names {
				got, err := st.Get(context.Background(), path, Person, name)
				if err != nil || string(got[0].Value) != fmt.Sprint(100*i+j) {
					t.Errorf("%s %s: %v, %v, want %d", path, name, got, err, 100*i+j)
				}
			}
		}
	}
	deepest := strings.Repeat(strings.Repeat("%", spec.MaxName)+"/", 9)
	if err := set(b, strings.TrimSuffix(deepest, "/"), Person, strings.Repeat("n", spec.MaxBeliefName)+"=1"); err != nil {
		t.Errorf("the longest names: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	b := open(t, memory.New())
	b.Declare("app/m", monitor)
	b.Declare("app/free", nil)
	begin(t, b, "app/m", 1)
	begin(t, b, "app/free", 1)
	want(t, "unknown name", set(b, "app/m", 1, "chek_count=1"), ErrNotFound, `"chek_count"`, `did you mean "check_count"?`, "app/m")
	want(t, "far name", set(b, "app/m", 1, "zzz=1"), ErrNotFound, "it declares check_count, threshold, note, seen")
	want(t, "wrong type", set(b, "app/m", 1, `check_count="x"`), ErrRefused, "check_count", "app/m", `string "x"`, "type int")
	want(t, "null", set(b, "app/m", 1, "note=null"), ErrRefused, "null, expected a value of type string")
	want(t, "fraction", set(b, "app/m", 1, "check_count=1.0"), ErrRefused, "float 1.0, expected a value of type int")
	want(t, "name", set(b, "app/free", 1, "a/b=1"), ErrRefused, "cannot name a belief")
	want(t, "long name", set(b, "app/free", 1, strings.Repeat("n", 129)+"=1"), ErrRefused, "129 bytes")
	want(t, "no name", set(b, "app/free", 1, "=1"), ErrRefused, "missing")
	want(t, "path", set(b, "app//x", Person, "a=1"), ErrRefused, "app//x")
	want(t, "not begun", set(b, "app/other", 1, "a=1"), ErrStale, "none is open")
	want(t, "later", set(b, "app/m", 2, "check_count=1"), ErrStale)
	want(t, "delete of nothing", b.Apply(context.Background(), Step{Path: "app/free", By: 1, Delete: []string{"a"}}), ErrNotFound)
	want(t, "twice", b.Apply(context.Background(), Step{Path: "app/free", By: 1, Delete: []string{"a", "a"}}), ErrRefused, "twice")
	_, err := b.Get(context.Background(), "app/m", 1, "check_cont")
	want(t, "get", err, ErrNotFound, `did you mean "check_count"?`)
	_, err = b.Get(context.Background(), "app/m", 2)
	want(t, "get by the next one", err, ErrStale)
	_, err = b.Get(context.Background(), "missing", Person)
	want(t, "get of an unknown agent", err, ErrNotFound)
	b.End("app/m", 1)
	want(t, "over", set(b, "app/m", 1, "check_count=1"), ErrStale, "none is open")
	want(t, "would be lost", set(b, "app/m", Person, "threshold=1"), ErrRefused, "not persistent", "change initial in the file")
	mustSet(t, b, "app/m", Person, "check_count=3")
	if got := text(t, b, "app/m", Person); !strings.HasPrefix(got, "check_count=3 ") {
		t.Errorf("set by a person while no agent runs: %s", got)
	}
	// A step is applied as a whole or not at all.
	if set(b, "app/free", 1, "a=1", "b=2", "/=3") == nil || text(t, b, "app/free", 1) != "" {
		t.Errorf("half a step: %s", text(t, b, "app/free", 1))
	}
}

// An agent that writes too much hits a limit that the error names.
func TestLimits(t *testing.T) {
	b := open(t, memory.New())
	begin(t, b, "app/a", 1)
	limit := func(what string, err error, max int, hint string) {
		t.Helper()
		var l *value.LimitError
		if !errors.As(err, &l) || l.Max != max || l.Have <= max || !strings.Contains(err.Error(), fmt.Sprint(max)) || !strings.Contains(err.Error(), fmt.Sprint(l.Have)) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%s: %v, want a limit of %d and a hint %q", what, err, max, hint)
		}
	}
	big := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	limit("100 MB", set(b, "app/a", 1, "a="+big(100<<20)), value.MaxBytes, "in a file")
	mustSet(t, b, "app/a", 1, "a="+big(value.MaxBytes))
	limit("a step of three", set(b, "app/a", 1, "a="+big(value.MaxBytes), "b="+big(value.MaxBytes), "c=1"), MaxStepBytes, "several steps")
	var many []string
	for i := range MaxStep + 1 {
		many = append(many, fmt.Sprintf("n%d=1", i))
	}
	limit("65 values", set(b, "app/a", 1, many...), MaxStep, "several steps")
	mustSet(t, b, "app/a", 1, many[:MaxStep]...)

	n := 0
	var err error
	for i := 0; i < 10_000 && err == nil; i++ { // an agent in an endless loop
		if err = set(b, "app/a", 1, fmt.Sprintf("b%d=1", i)); err == nil {
			n++
		}
	}
	limit("10,000 beliefs", err, MaxBeliefs, "coppice belief rm")
	if n != MaxBeliefs-MaxStep-1 {
		t.Errorf("%d beliefs were accepted in addition to the first %d", n, MaxStep+1)
	}
	mustSet(t, b, "app/a", 1, "b0=2") // existing beliefs can still change
	begin(t, b, "app/b", 1)
	err = nil
	for i := 0; i < 100 && err == nil; i++ {
		err = set(b, "app/b", 1, fmt.Sprintf("b%d=%s", i, big(value.MaxBytes)))
	}
	limit("in all", err, MaxBytes, "in files")
	mustSet(t, b, "app/b", 1, "b0=1")
	if _, err := b.Clear(context.Background(), "app/b"); err != nil || text(t, b, "app/b", 1) != "" {
		t.Errorf("cleared: %v, %s", err, text(t, b, "app/b", 1))
	}
}

// Large values are not kept in memory, and can be read.
func TestLargeValues(t *testing.T) {
	s := memory.New()
	b := open(t, s)
	large := value.Value(`["` + strings.Repeat("y", maxInMemory) + `"]`)
	mustSet(t, b, "app/a", Person, "large="+string(large), "small=1")
	for _, st := range []*Store{b, open(t, s)} {
		if got := st.agents["app/a"].stored.entries["large"].value; got != "" {
			t.Errorf("%d bytes in memory", len(got))
		}
		if got := text(t, st, "app/a", Person); got != "large="+string(large)+" small=1" {
			t.Errorf("%.60s", got)
		}
		if l := st.Agents("")[0].Beliefs; l[0].Value != "" || l[0].Size != len(large) || l[1].Value != "1" {
			t.Errorf("listed: %.100v", l)
		}
	}
}

// A record that is damaged or has the wrong type affects only its own belief. A person can still
// read the stored record.
func TestDamageAndChangedTypes(t *testing.T) {
	ctx, s := context.Background(), memory.New()
	b := open(t, s)
	mustSet(t, b, "app/m", Person, `check_count="three"`, "note=5", "extra=1", "threshold=1")
	damaged := []byte("{\"value\": \xff\x00")
	if _, err := s.Apply(ctx, store.Fence{}, nil, []store.Op{
		{Kind: store.Put, Key: "beliefs/app/m/note", Value: damaged},
		{Kind: store.Put, Key: "beliefs/app/m/bad name", Value: damaged},
		{Kind: store.Put, Key: "beliefs/x", Value: damaged},
	}); err != nil {
		t.Fatal(err)
	}
	b, problems, err := Open(ctx, s)
	if err != nil || len(problems) != 3 || problems[1].Name != "note" && problems[0].Name != "note" && problems[2].Name != "note" {
		t.Fatalf("%v, %v", problems, err)
	}
	b.Declare("app/m", monitor)
	problems = begin(t, b, "app/m", 1)
	if len(problems) != 1 || problems[0].Name != "check_count" || !strings.Contains(problems[0].Message, "stored as string, and the file declares int") {
		t.Errorf("problems: %v", problems)
	}
	// threshold is no longer persistent; extra is not declared.
	if got, want := text(t, b, "app/m", 1), `check_count=0 note="none" seen=[] threshold=100`; got != want {
		t.Errorf("the agent sees %s, want %s", got, want)
	}
	if got := text(t, b, "app/m", Person); !strings.Contains(got, "extra=1") {
		t.Errorf("a person sees %s", got)
	}
	mustSet(t, b, "app/m", 1, "check_count=4", `note="new"`)
	for name, kept := range map[string]string{"check_count": `"three"`, "note": string(damaged)} {
		record, aside, err := b.Raw(ctx, "app/m", name)
		if err != nil || !strings.Contains(string(aside), kept) || strings.Contains(string(record), kept) {
			t.Errorf("%s: %q, aside %q, %v", name, record, aside, err)
		}
	}
	b = openDamaged(t, s)
	b.Declare("app/m", monitor)
	if p := begin(t, b, "app/m", 2); len(p) != 0 {
		t.Errorf("problems after new values: %v", p)
	}
	if got, want := text(t, b, "app/m", 2), `check_count=4 note="new" seen=[] threshold=100`; got != want {
		t.Errorf("the next one sees %s, want %s", got, want)
	}
	if _, err := b.Clear(ctx, "app/m"); err != nil {
		t.Fatal(err)
	}
	left, _, _ := s.Snapshot(ctx, "")
	if len(left) != 2 { // records that do not belong to a belief
		t.Errorf("left: %v", left)
	}
}

// openDamaged is open for a store with problems.
func openDamaged(t *testing.T, s store.Store) *Store {
	t.Helper()
	b, _, err := Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// An agent that declares nothing can store anything, and its next incarnations have it.
func TestUndeclared(t *testing.T) {
	s := memory.New()
	b := open(t, s)
	b.Declare("app/a", nil)
	begin(t, b, "app/a", 1)
	mustSet(t, b, "app/a", 1, "x=1", `y={"a":[1.50,9007199254740993]}`)
	if err := b.Apply(context.Background(), Step{Path: "app/a", By: 1, Set: map[string]value.Value{"z": "3"}, Delete: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	b = open(t, s)
	begin(t, b, "app/a", 2)
	if got, want := text(t, b, "app/a", 2), `y={"a":[1.50,9007199254740993]} z=3`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := slices.Collect(maps.Keys(b.agents)); len(got) != 1 {
		t.Errorf("agents: %v", got)
	}
}

// A changed declaration applies from the next incarnation on.
func TestRedeclare(t *testing.T) {
	b := open(t, memory.New())
	b.Declare("app/a", nil)
	begin(t, b, "app/a", 1)
	b.Declare("app/a", monitor)
	mustSet(t, b, "app/a", 1, "anything=1")
	begin(t, b, "app/a", 2)
	want(t, "undeclared", set(b, "app/a", 2, "anything=1"), ErrNotFound)
}

// If the store takes no writes, writes fail, and an agent can still start.
func TestStoreRefuses(t *testing.T) {
	f := storetest.NewFaults(memory.New(), 1, storetest.Rates{})
	b := open(t, f)
	b.Declare("app/m", monitor)
	begin(t, b, "app/m", 1)
	mustSet(t, b, "app/m", 1, "check_count=1", "threshold=2")
	f.Fail(store.ErrFull)
	want(t, "full", set(b, "app/m", 1, "check_count=2"), store.ErrFull)
	begin(t, b, "app/m", 2)
	if got, want := text(t, b, "app/m", 2), `check_count=1 note="none" seen=[] threshold=100`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	f.Fail(nil)
	mustSet(t, b, "app/m", 2, "check_count=2")
}

// While the outcome of a write is unknown, reads fail. What is read afterwards no longer changes.
func TestUnknownOutcome(t *testing.T) {
	for _, unknown := range []error{store.ErrUnknown, fmt.Errorf("lost: %w", store.ErrUnknown)} {
		f := storetest.NewFaults(memory.New(), 1, storetest.Rates{})
		b := open(t, f)
		begin(t, b, "app/a", 1)
		mustSet(t, b, "app/a", 1, "n=1")
		f.Fail(unknown)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err := b.Apply(ctx, Step{Path: "app/a", By: 1, Set: map[string]value.Value{"n": "2"}})
		if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err = set(b, "app/a", 1, "n=3"); !errors.Is(err, store.ErrUnknown) {
			t.Fatal(err)
		}
		if _, err := b.Get(context.Background(), "app/a", 1); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("read meanwhile: %v", err)
		}
		f.Fail(nil)
		first := text(t, b, "app/a", 1)
		begin(t, b, "app/a", 2)
		if second := text(t, b, "app/a", 2); second != first {
			t.Errorf("%s became %s", first, second)
		}
	}
}
