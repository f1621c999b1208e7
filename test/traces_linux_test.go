package test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/traces/tracestest"
)

// tracesTOML returns [traces] to a receiver.
func tracesTOML(r *tracestest.Receiver) string {
	return fmt.Sprintf("[traces]\nendpoint = %q\n\n", r.URL)
}

// awaitSpan waits for the span of an incarnation. It fails if the receiver gets it twice.
func awaitSpan(t *testing.T, r *tracestest.Receiver, path string, incarnation int64) (found tracestest.Span) {
	t.Helper()
	eventually(t, fmt.Sprintf("the span of %s, incarnation %d", path, incarnation), func() bool {
		n := 0
		for _, s := range r.Spans() {
			if s.Attributes["coppice.agent.path"] == path && s.Attributes["coppice.incarnation"] == incarnation &&
				s.Name != "attempt" {
				found = s
				n++
			}
		}
		if n > 1 {
			t.Fatalf("%s, incarnation %d: %d spans", path, incarnation, n)
		}
		return n == 1
	})
	return found
}

// traceparent waits for what an incarnation has in its environment. Its agent has written it to a file.
func (f *fleet) traceparent(name string, incarnation int) string {
	f.t.Helper()
	return strings.TrimSpace(f.awaitFile(fmt.Sprintf("parent.%s.%d", name, incarnation)))
}

// saysParent is a script that writes TRACEPARENT to a file.
const saysParent = `name=parent.${COPPICE_AGENT#*/}.$COPPICE_INCARNATION
echo "$TRACEPARENT" >"new.$name" && mv "new.$name" "$name"
`

// The spans of incarnations are whole and come once, with the ID that their programs got: of one that crashes, its
// successor, which outlives the daemon, and one that is stopped.
func TestTraces(t *testing.T) {
	t.Parallel()
	r := tracestest.New(t)
	f := newFleet(t, tracesTOML(r), agentTOML("a", saysParent+"exec sleep 1000"),
		agentTOML("b", saysParent+"exec sleep 1000"),
		agentTOML("c", saysParent+"exec sleep 1000", `env = { TRACEPARENT = "mine" }`))
	f.do("up", "-d")
	first, b := f.traceparent("a", 1), f.traceparent("b", 1)
	if c := f.traceparent("c", 1); c != "mine" {
		t.Errorf("what the file sets is changed: %s", c)
	}
	exectest.Signal(t, f.node("t/a").PID, syscall.SIGKILL)
	crashed := awaitSpan(t, r, "t/a", 1)
	if crashed.Traceparent() != first || !crashed.Failed || crashed.Reason != "signal SIGKILL" ||
		crashed.Attributes["coppice.exit.signal"] != "SIGKILL" || crashed.Attributes["coppice.decision"] != "restart" ||
		crashed.Attributes["error.type"] == nil || crashed.Name != "agent t/a" || crashed.Parent != "" {
		t.Errorf("%+v, its program has %s", crashed, first)
	}
	if crashed.Resource["service.name"] != "coppice" || crashed.Resource["coppice.project"] != "t" {
		t.Errorf("%v", crashed.Resource)
	}
	second := f.traceparent("a", 2)
	began := f.awaitEvent(event.AgentStarted, "t/a", f.events(event.AgentCrashed, "t/a")[0].Seq).Time
	f.crash()
	f.do("up", "-d")
	f.do("mail", "send", "t/a", "-s", "secret", "-m", "secret words")
	f.do("stop", "t/a")
	stopped := awaitSpan(t, r, "t/a", 2)
	if stopped.Traceparent() != second || stopped.Failed || stopped.Start.After(began) ||
		len(stopped.Events) < 2 || stopped.Events[0] != "agent.adopted" ||
		!slices.Contains(stopped.Events, "agent.stopping") ||
		len(stopped.Links) != 1 || stopped.Links[0] != crashed.ID {
		t.Errorf("%+v, its program has %s and began at %v", stopped, second, began)
	}
	f.do("down")
	if s := awaitSpan(t, r, "t/b", 1); s.Traceparent() != b || s.Failed {
		t.Errorf("%+v, its program has %s", s, b)
	}
	for _, s := range r.Spans() {
		if strings.Contains(fmt.Sprint(s), "secret") {
			t.Errorf("%+v", s)
		}
	}
	count := len(r.Spans())
	f.do("up", "-d")
	f.do("down")
	if again := r.Spans()[count:]; len(again) != 2 { // those of b and c; a stays stopped
		t.Errorf("%+v", again)
	}
}

// A receiver that does not answer delays nothing, and gets all spans when it does. Changes of the file apply at once.
func TestTracesReceiver(t *testing.T) {
	t.Parallel()
	r := tracestest.New(t)
	hang := make(chan struct{})
	r.Answer(func(w http.ResponseWriter, _ *http.Request) { <-hang })
	file := agentTOML("a", saysParent+"exec sleep 1000")
	f := newFleet(t, tracesTOML(r), file)
	f.do("up", "-d")
	exectest.Signal(t, f.node("t/a").PID, syscall.SIGKILL)
	f.traceparent("a", 2)
	eventually(t, "a request", func() bool { return r.Refused() > 0 })
	exectest.Signal(t, f.awaitState("t/a", "running").PID, syscall.SIGKILL)
	f.traceparent("a", 3)
	f.do("down") // and the receiver still hangs
	if spans := r.Spans(); len(spans) > 0 {
		t.Fatalf("%+v", spans)
	}
	r.Answer(nil)
	close(hang)
	f.do("up", "-d")
	for incarnation := range int64(3) {
		awaitSpan(t, r, "t/a", incarnation+1)
	}
	f.replaceFile("coppice.toml", "[project]\nname = \"t\"\n"+file)
	f.awaitEvent(event.ConfigReloaded, "", 0)
	f.do("restart", "t/a")
	if got := f.traceparent("a", 5); got != "" {
		t.Errorf("TRACEPARENT is %s without [traces]", got)
	}
	f.do("down")
	if n := len(r.Spans()); n != 3 {
		t.Errorf("%d spans", n)
	}
}

// coppice run exports, too, and its incarnations are others than those of a daemon that have the same numbers.
func TestTracesOfRun(t *testing.T) {
	t.Parallel()
	r := tracestest.New(t)
	f := newFleet(t, tracesTOML(r), agentTOML("a", saysParent+"exit 0", `restart = "never"`))
	ids := map[string]bool{}
	for range 2 {
		f.do("run")
		f.do("up", "-d")
		f.do("down")
	}
	spans := r.Spans()
	for _, s := range spans {
		ids[s.Traceparent()] = true
	}
	if parent := f.traceparent("a", 1); len(ids) != len(spans) || len(spans) < 2 || !ids[parent] {
		t.Errorf("%d spans, %d IDs, %s: %+v", len(spans), len(ids), parent, spans)
	}
}

// The examples of docs/traces.md work: agents get what they need, and their spans arrive.
func TestTracesPage(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "docs", "traces.md"))
	if err != nil {
		t.Fatal(err)
	}
	r := tracestest.New(t)
	const agent = "\n[[agent]]\nname = \"a\"\ncommand = [\"sleep\", \"1000\"]\n"
	last := ""
	for _, example := range fenced.FindAllStringSubmatch(string(data), -1) {
		if example[1] != "toml" {
			continue
		}
		if last = example[2]; !strings.Contains(last, "[[agent]]") {
			newFleet(t, last+agent).do("validate")
		}
	}
	last = strings.ReplaceAll(last, "http://127.0.0.1:4318", r.URL)
	last = strings.Replace(last, `["claude", "-p", "fix the tests"]`, `["sh", "-c", "env >new; mv new env; exec sleep 1000"]`, 1)
	f := newFleet(t, last)
	f.do("up", "-d")
	env := f.awaitFile("env")
	f.do("down")
	s := awaitSpan(t, r, "t/coder", 1)
	for _, want := range []string{"TRACEPARENT=" + s.Traceparent(), "OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL} {
		if !strings.Contains(env, want+"\n") {
			t.Errorf("%s is not in %s", want, env)
		}
	}
	for name := range s.Attributes {
		if !strings.Contains(string(data), "`"+name+"`") {
			t.Errorf("the page does not have %s", name)
		}
	}
}

// Attempts at tasks are below the incarnation that makes them, and their commands run in them. So do those of orders.
func TestTracesOfWork(t *testing.T) {
	t.Parallel()
	r := tracestest.New(t)
	p := newPipeline(t, 1, "\n"+tracesTOML(r)+`
[[order]]
name = "nightly"
exec = "echo $TRACEPARENT >order.$COPPICE_ORDER_ATTEMPT; [ $COPPICE_ORDER_ATTEMPT = 2 ]"
gate = "manual"
retries = 1
backoff = "none"
`)
	write(t, filepath.Join(p.dir, "model.sh"), strings.Replace(pipelineModel, "prompt=$(cat)\n", "prompt=$(cat)\n"+
		`echo "$TRACEPARENT" >"$DESK/parent-$COPPICE_STAGE-$COPPICE_ATTEMPT"`+"\n", 1))
	p.git(p.dir, "commit", "-qam", "write the span down")
	p.do("up", "-d")
	id := p.add("fail a", "--pool", "fixer")
	awaitNamed := func(name, key string, value any) (found tracestest.Span) {
		t.Helper()
		eventually(t, fmt.Sprintf("the span %s with %v", name, value), func() bool {
			i := slices.IndexFunc(r.Spans(), func(s tracestest.Span) bool {
				return s.Name == name && s.Attributes[key] == value
			})
			if i >= 0 {
				found = r.Spans()[i]
			}
			return i >= 0
		})
		return found
	}
	for n, outcome := range []string{"retryable", "completed"} {
		s := awaitNamed("attempt", "coppice.task.attempt", int64(n+1))
		path, incarnation := s.Attributes["coppice.agent.path"].(string), s.Attributes["coppice.incarnation"].(int64)
		worker := awaitSpan(t, r, path, incarnation)
		if s.Attributes["coppice.task.id"] != id || s.Attributes["coppice.task.outcome"] != outcome ||
			s.Failed != (n == 0) || s.Trace != worker.Trace || s.Parent != worker.ID || s.Start.Before(worker.Start) {
			t.Errorf("%+v below %+v", s, worker)
		}
		for _, stage := range []string{"plan", "implement"} {
			text, err := os.ReadFile(filepath.Join(p.desk, fmt.Sprintf("parent-%s-%d", stage, n+1)))
			if err != nil || strings.TrimSpace(string(text)) != s.Traceparent() {
				t.Errorf("%s runs in %s, %v, not in %s", stage, text, err, s.Traceparent())
			}
		}
	}
	p.do("order", "run", "nightly", "--wait")
	first := awaitNamed("order nightly", "coppice.order.attempt", int64(1))
	second := awaitNamed("order nightly", "coppice.order.attempt", int64(2))
	if !first.Failed || first.Reason != "exit code 1" || second.Failed || second.Parent != first.ID ||
		p.awaitFile("order.1") != first.Traceparent()+"\n" || p.awaitFile("order.2") != second.Traceparent()+"\n" {
		t.Errorf("%+v, %+v", first, second)
	}
}

// The span of a run of an Aidefile has what its calls of models have used, and their command lines run in it. So does a
// terminal of tmux.
func TestTracesOfCalls(t *testing.T) {
	t.Parallel()
	r := tracestest.New(t)
	a := newClaudeAidefile(t, noRetry, "echo \"$TRACEPARENT\" >>parents\n"+claudeUses("s1", "100")+"\n")
	a.edit("[project]\nname = \"t\"\n", "[project]\nname = \"t\"\n"+tracesTOML(r)+
		agentTOML("b", saysParent+"exec sleep 1000", `runtime = "tmux"`))
	a.up()
	a.do("fire", "a", "secret words")
	s := awaitSpan(t, r, "t/a", 1)
	for name, want := range map[string]any{
		"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", "gen_ai.provider.name": "anthropic",
		"gen_ai.conversation.id": "s1", "gen_ai.usage.input_tokens": int64(107),
		"gen_ai.usage.cache_read.input_tokens": int64(7), "gen_ai.usage.output_tokens": int64(10),
		"coppice.dollars": 0.5, "coppice.calls": int64(1),
	} {
		if got := s.Attributes[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	parents, err := os.ReadFile(filepath.Join(a.home, "parents"))
	if err != nil || string(parents) != s.Traceparent()+"\n" || s.Name != "invoke_agent a" ||
		strings.Contains(fmt.Sprint(s), "secret") || s.Attributes["coppice.trigger"] == nil {
		t.Errorf("%+v; its command line has %s, %v", s, parents, err)
	}
	parent := a.traceparent("b", 1)
	a.do("down")
	if s := awaitSpan(t, r, "t/b", 1); s.Traceparent() != parent {
		t.Errorf("%+v; its program has %s", s, parent)
	}
}
