package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/health"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Unix(1_764_398_400, 0)

// parts are the parts of a daemon that is measured; tests change them.
type parts struct {
	Options
	nodes    []status.Node
	machines []nodes.Summary
	passed   time.Time // when the last pass has ended
	used     map[string]usage.Resources
	down     chan struct{}
}

// newParts returns the parts of a daemon in which nothing is.
func newParts() *parts {
	p := &parts{down: make(chan struct{}), passed: time.Now()}
	p.Options = Options{
		Project: "shop", Version: "1.0", StartedAt: start, MaxAgents: 1000,
		Logger: slog.New(slog.DiscardHandler),
		Follow: func(context.Context, uint64, event.Filter) iter.Seq2[event.Event, error] {
			return func(func(event.Event, error) bool) {}
		},
		Nodes:    func() ([]status.Node, error) { return p.nodes, nil },
		Machines: func() []nodes.Summary { return p.machines },
		LastPass: func() time.Time { return p.passed }, Stalled: func() error { return nil },
		Root: func() error { return nil }, Writable: func() error { return nil },
		Writes: func() store.Writes { return store.Writes{Transactions: 2, Records: 5, Bytes: 70} }, Stopping: p.down,
		Questions: func() []question.Question { return nil },
		Tasks:     func() map[task.Status]int { return nil },
		Orders:    func() []dispatch.View { return nil },
		Quotas:    func() []quota.Info { return nil },
		Budgets:   func() []budget.Info { return nil },
		Usage:     func() map[string]usage.Resources { return p.used },
	}
	return p
}

// agentNode returns an agent that runs and has a limit.
func agentNode(path string) status.Node {
	return status.Node{Path: path, Kind: "agent", State: "running", StartedAt: new(start), LimitMax: 20, InWindow: 3,
		PID: 1}
}

func supervisorNode(path string) status.Node {
	return status.Node{Path: path, Kind: "supervisor", State: "running", LimitMax: -1}
}

// get returns an answer of the handler.
func get(t testing.TB, m *Metrics, path string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// scrape returns all metrics, as Prometheus reads them.
func scrape(t testing.TB, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	code, body := get(t, m, "/metrics")
	if code != 200 {
		t.Fatalf("status %d: %s", code, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(body) {
		series, _, _ := strings.Cut(line, "} ")
		if line[0] != '#' && series != line && seen[series] {
			t.Errorf("twice: %s", line)
		}
		seen[series] = true
	}
	return all
}

// values returns the series of Coppice that are not 0, as name{label="value"} and value.
func values(all map[string]*dto.MetricFamily) map[string]float64 {
	found := map[string]float64{}
	for name, f := range all {
		for _, p := range f.Metric {
			var labels []string
			for _, l := range p.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			key := strings.TrimPrefix(name, "coppice_")
			if key == name {
				continue
			}
			if labels != nil {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			v := p.GetCounter().GetValue() + p.GetGauge().GetValue()
			if h := p.Histogram; h != nil {
				v = float64(h.GetSampleCount())
				if v > 0 {
					found[key+" sum"] = h.GetSampleSum()
				}
			}
			if v != 0 {
				found[key] = v
			}
		}
	}
	return found
}

// changes returns the series that differ, sorted.
func changes(before, after map[string]float64) (all []string) {
	for key, v := range after {
		if before[key] != v {
			all = append(all, fmt.Sprintf("%s %+g", key, v-before[key]))
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			all = append(all, key+" gone")
		}
	}
	slices.Sort(all)
	return all
}

// full returns metrics with every series of the catalogue.
func full(t testing.TB) *Metrics {
	p := newParts()
	last := order.Run{Status: order.Completed, EndedAt: start}
	agent, sup := agentNode("shop/a"), supervisorNode("shop")
	agent.Vitals = &health.Info{Progress: new(int64(3)), ProgressAge: 1, Unresponsive: true}
	sup.LimitMax = 5
	p.nodes = []status.Node{sup, agent, supervisorNode("shop/s")}
	p.StorePath = t.TempDir()
	p.machines = []nodes.Summary{
		{Name: "a", State: nodes.Ready, Agents: 3}, {Name: "b", State: nodes.Ready}, {Name: "c", State: nodes.Lost, Agents: 1},
	}
	p.Questions = func() []question.Question { return []question.Question{{At: start}} }
	p.Tasks = func() map[task.Status]int { return map[task.Status]int{task.Open: 2} }
	p.Orders = func() []dispatch.View {
		return []dispatch.View{{View: order.View{Order: &order.Order{Name: "backup"}}, Last: &last}}
	}
	p.Quotas = func() []quota.Info {
		return []quota.Info{{Name: "work", State: quota.Parked, Until: start, Waiting: []string{"shop/a"},
			Used: []quota.Window{{Name: "five_hour", Used: .5, Reset: start}}}}
	}
	p.Budgets = func() []budget.Info {
		return []budget.Info{{Name: "day", State: budget.Reached,
			Limits: []budget.Measure{{Limit: "tokens", Used: 5, Max: 4}}}}
	}
	p.used = map[string]usage.Resources{"shop/a": {Memory: 7, CPUTime: 3 * time.Second}, "shop/gone": {Memory: 1}}
	m := New(p.Options)
	m.Passed(time.Millisecond)
	m.Written(time.Millisecond)
	m.Count(event.Event{Type: event.AgentStarted, Path: "shop/a"})
	m.Count(event.Event{Type: event.AgentStartFailed, Path: "shop/a"})
	m.Count(event.Event{Type: event.AgentCrashed, Path: "shop/a"})
	m.Count(event.Event{Type: event.AgentQuarantined, Path: "shop/a"})
	m.Used(cost.Used{Agent: "shop/a", CLI: "claude", Version: "2", Unknown: 1,
		Counts: cost.Counts{Calls: 1, UnknownTokens: 1, UnknownDollars: 1},
		Models: agentcli.Models{"opus": {Input: 1, Dollars: 1}}})
	return m
}

// Every metric of the catalogue is exported, with its labels and text, and no other one.
func TestCatalogue(t *testing.T) {
	all := scrape(t, full(t))
	known := map[string]bool{}
	for _, m := range catalogue() {
		known[m.Name] = true
		f := all[m.Name]
		if f == nil {
			t.Errorf("%s is not exported", m.Name)
			continue
		}
		if f.GetType() != m.Type || f.GetHelp() != m.Help || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: %v %q", m.Name, f.GetType(), f.GetHelp())
		}
		for _, p := range f.Metric {
			var labels []string
			for _, l := range p.Label {
				labels = append(labels, l.GetName())
			}
			slices.Sort(labels)
			if !slices.Equal(labels, slices.Sorted(slices.Values(m.Labels))) {
				t.Errorf("%s has the labels %v", m.Name, labels)
			}
		}
	}
	for name := range all {
		if !known[name] && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is not in the catalogue", name)
		}
	}
	if all["go_goroutines"] == nil || all["process_open_fds"] == nil {
		t.Error("the metrics of the process are missing")
	}
}

func TestLint(t *testing.T) {
	_, body := get(t, full(t), "/metrics")
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestOpenMetrics(t *testing.T) {
	m := full(t)
	for accept, want := range map[string]string{
		"": "text/plain", "application/openmetrics-text;version=1.0.0": "application/openmetrics-text",
	} {
		r, w := httptest.NewRequest("GET", "/metrics", nil), httptest.NewRecorder()
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Encoding", "gzip")
		m.Handler().ServeHTTP(w, r)
		if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s", accept, got)
		}
		if body := w.Body.String(); strings.HasSuffix(body, "# EOF\n") != (accept != "") ||
			!strings.Contains(body, "\ncoppice_questions_open 1") {
			t.Errorf("%q: %s", accept, body)
		}
	}
}

// Each gauge has the value of the part that it is read from.
func TestGauges(t *testing.T) {
	got := values(scrape(t, full(t)))
	for key, want := range map[string]float64{
		`up_since_timestamp_seconds`: 1_764_398_400, `agents{state="running"}`: 1, `agents_unresponsive`: 1,
		`agent_up{agent="shop/a"}`: 1, `agent_start_timestamp_seconds{agent="shop/a"}`: 1_764_398_400,
		`agent_restarts_in_window{agent="shop/a"}`: 3, `agent_restarts_limit{agent="shop/a"}`: 20,
		`agent_memory_bytes{agent="shop/a"}`: 7, `agent_cpu_seconds_total{agent="shop/a"}`: 3,
		`store_write_seconds`: 1, `store_write_seconds sum`: .001,
		`supervisor_restarts_limit{supervisor="shop"}`: 5, `questions_open`: 1, `tasks{status="open"}`: 2,
		`question_oldest_timestamp_seconds`: 1_764_398_400, `store_writable`: 1,
		`store_transactions_total`: 2, `store_records_total`: 5, `store_written_bytes_total`: 70,
		`budget_reached{budget="day"}`:         1,
		`quota_agents_waiting{account="work"}`: 1, `quota_used_ratio{account="work",window="five_hour"}`: .5,
		`quota_reset_timestamp_seconds{account="work",window="five_hour"}`: 1_764_398_400,
		`quota_retry_timestamp_seconds{account="work"}`:                    1_764_398_400,
		`order_last_success_timestamp_seconds{order="backup"}`:             1_764_398_400,
		`nodes{state="ready"}`: 2, `nodes{state="lost"}`: 1, `node_agents{node="a"}`: 3, `node_agents{node="c"}`: 1,
		// 0
		`nodes{state="draining"}`: 0, `nodes{state="joined"}`: 0, `node_agents{node="b"}`: 0,
		`quota_open{account="work"}`: 0, `budget_remaining_ratio{budget="day",limit="tokens"}`: 0,
		`tasks{status="closed"}`: 0, `supervisor_restarts_limit{supervisor="shop/s"}`: 0,
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if at := got[`agent_last_progress_timestamp_seconds{agent="shop/a"}`]; time.Since(time.Unix(int64(at), 0)) >
		time.Minute {
		t.Errorf("the progress is of %v", at)
	}
}

// An agent that does not run has no start, and what is not there any longer has no series.
func TestGone(t *testing.T) {
	p := newParts()
	p.nodes = []status.Node{supervisorNode("shop"), agentNode("shop/a"), agentNode("shop/b")}
	m := New(p.Options)
	for _, path := range []string{"shop/a", "shop/b"} {
		m.Count(event.Event{Type: event.AgentStarted, Path: path})
	}
	m.Count(event.Event{Type: event.OrderFailed, Path: "orders/old"})
	before := values(scrape(t, m))
	p.nodes = p.nodes[:2]
	p.nodes[1].State, p.nodes[1].StartedAt = "stopped", nil
	want := []string{
		`agent_restarts_in_window{agent="shop/b"} gone`, `agent_restarts_limit{agent="shop/b"} gone`,
		`agent_start_timestamp_seconds{agent="shop/a"} gone`, `agent_start_timestamp_seconds{agent="shop/b"} gone`,
		`agent_starts_total{agent="shop/b",reason="start"} gone`, `agent_up{agent="shop/a"} gone`,
		`agent_up{agent="shop/b"} gone`, `agents{state="running"} gone`, `agents{state="stopped"} +1`,
	}
	if got := changes(before, values(scrape(t, m))); !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if len(m.agents.all) != 1 || len(m.orders.all) != 0 {
		t.Errorf("%d agents and %d orders are kept", len(m.agents.all), len(m.orders.all))
	}
}

// Any name is a label that can be read again.
func TestHostileNames(t *testing.T) {
	names := []string{"a\"b", `a\`, `\n`, "a{b=\"c\"} 1", "ü€😀", "*", " ", "# HELP", "\xff\xfe", "a\nb"}
	p := newParts()
	for _, name := range names {
		p.nodes = append(p.nodes, agentNode("shop/"+name))
	}
	m := New(p.Options)
	for _, name := range names {
		m.Count(event.Event{Type: event.AgentStarted, Path: "shop/" + name})
		m.Used(cost.Used{Agent: "shop/" + name, CLI: agentcli.CLI(name), Version: name, Unknown: 1,
			Counts: cost.Counts{Calls: 1}, Models: agentcli.Models{name: {Output: 1, Dollars: 1}}})
		m.Count(event.Event{Type: event.OrderFailed, Path: "orders/" + name})
	}
	found := map[string]bool{}
	for _, s := range scrape(t, m)["coppice_agent_up"].Metric {
		found[s.Label[0].GetValue()] = true
	}
	for _, name := range names {
		if path := "shop/" + strings.ToValidUTF8(name, "\uFFFD"); !found[path] {
			t.Errorf("%q is missing", path)
		}
	}
}

// A slow reader holds up neither events nor other readers.
func TestSlowReader(t *testing.T) {
	m := full(t)
	blocked, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w := &slowWriter{httptest.NewRecorder(), blocked, release}
	go func() {
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		close(done)
	}()
	<-blocked
	m.Count(event.Event{Type: event.AgentStarted, Path: "shop/a"})
	scrape(t, m)
	close(release)
	<-done
	if w.Body.Len() == 0 {
		t.Error("the slow reader has got nothing")
	}
}

type slowWriter struct {
	*httptest.ResponseRecorder
	blocked, release chan struct{}
}

func (w *slowWriter) Write(p []byte) (int, error) {
	close(w.blocked)
	<-w.release
	return w.ResponseRecorder.Write(p)
}

// While the daemon hangs, a scrape waits only as long as its client.
func TestHang(t *testing.T) {
	p := newParts()
	entered, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p.Options.Nodes = func() ([]status.Node, error) {
		close(entered)
		<-release
		return nil, errors.New("no tree")
	}
	m := New(p.Options)
	go func() {
		get(t, m, "/metrics")
		close(done)
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/metrics", nil))
		if w.Body.Len() > 0 {
			t.Errorf("%s", w.Body)
		}
	}
	close(release)
	<-done
}

// A nil Metrics counts nothing, and does not fail.
func TestNil(*testing.T) {
	var m *Metrics
	m.Passed(time.Second)
	m.Started()
	m.Used(cost.Used{Counts: cost.Counts{Calls: 1}})
	m.Run(context.Background(), 0)
}

// Of a fleet of 1,000 agents with all series that an agent of a language model has.
func BenchmarkScrape(b *testing.B) {
	p := newParts()
	for i := range 1000 {
		if i%100 == 0 {
			p.nodes = append(p.nodes, supervisorNode(fmt.Sprintf("shop/group%d", i/100)))
		}
		n := agentNode(fmt.Sprintf("shop/group%d/agent-%d", i/100, i))
		n.Vitals = &health.Info{Progress: new(int64(3)), ProgressAge: 1}
		p.nodes = append(p.nodes, n)
	}
	for name, use := range map[string]func(m *Metrics, path string){
		"processes": func(*Metrics, string) {},
		"models": func(m *Metrics, path string) {
			m.Used(cost.Used{Agent: path, Counts: cost.Counts{Calls: 1},
				Models: agentcli.Models{"opus": {Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Dollars: 1}}})
		},
	} {
		b.Run(name, func(b *testing.B) {
			m := New(p.Options)
			for _, n := range p.nodes {
				if n.Kind == "agent" {
					m.Count(event.Event{Type: event.AgentStarted, Path: n.Path})
					m.Count(event.Event{Type: event.AgentCrashed, Path: n.Path})
					use(m, n.Path)
				}
			}
			h := m.Handler()
			w := &discard{ResponseRecorder: httptest.NewRecorder()}
			lines := 0
			b.ReportAllocs()
			for b.Loop() {
				w.Reset()
				h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
				lines = bytes.Count(w.Bytes(), []byte("\n"))
			}
			b.ReportMetric(float64(w.Len()), "bytes")
			b.ReportMetric(float64(lines), "lines")
		})
	}
}

// discard keeps the last answer.
type discard struct {
	*httptest.ResponseRecorder
	bytes.Buffer
}

func (d *discard) Write(p []byte) (int, error) { return d.Buffer.Write(p) }
