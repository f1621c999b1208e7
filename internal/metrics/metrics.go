// Package metrics exports what a daemon knows to Prometheus, and answers health checks.
//
// Counters and histograms count the events of the log as they are written, from the start of the daemon. Gauges are
// read from the read model and the features when Prometheus asks for them. The number of series is bounded, whatever
// the names of agents and the output of command lines.
package metrics

import (
	"context"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/httpserver"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/usage"
)

// Options are the parts of a daemon that are measured. All are required; functions that return data are called once
// for each scrape.
type Options struct {
	Project   string
	Version   string
	StartedAt time.Time
	MaxAgents int // how many agents have series of their own
	Logger    *slog.Logger

	// Follow is event.Log.Follow.
	Follow   func(ctx context.Context, after uint64, f event.Filter) iter.Seq2[event.Event, error]
	Nodes    func() ([]status.Node, error)
	Machines func() []nodes.Summary // the nodes of the fleet; none if there is none
	LastPass func() time.Time       // when the last reconciliation pass has ended; zero before the first
	Stalled  func() error           // why reconciliation does not work, or nil
	Root     func() error           // asks the root supervisor whether it answers; it may block
	Writable func() error           // why the store accepts no writes, or nil
	Writes   func() store.Writes
	Stopping <-chan struct{} // closed when the daemon is asked to stop

	StorePath string // the file of the store; empty if it has none
	Questions func() []question.Question
	Tasks     func() map[task.Status]int
	Orders    func() []dispatch.View
	Quotas    func() []quota.Info
	Budgets   func() []budget.Info
	Usage     func() map[string]usage.Resources // of agents, as measured last
}

// Metrics are the metrics of a daemon. A nil Metrics counts nothing. Its methods may be called at any time.
type Metrics struct {
	o        Options
	metrics  []Metric
	registry *prometheus.Registry // what the library measures itself, and the histograms
	handler  http.Handler         // encodes a scrape
	root     prober

	gathering chan struct{} // has a token while a scrape is gathered
	started   atomic.Bool
	passes    prometheus.Histogram
	writes    prometheus.Histogram
	delay     prometheus.Histogram
	recovery  prometheus.Histogram

	mu          sync.Mutex // held while events are counted, and while a scrape is encoded
	daemon      *series    // counters that are not about one agent, order or supervisor
	agents      *bounded
	supervisors *bounded
	orders      *bounded
	machines    *bounded
	down        map[string]time.Time // when agents have crashed that are not ready again
	scrape      uint64               // the number of the last one
	families    []*dto.MetricFamily  // of the last scrape, by id
	size        int                  // of the last answer, in bytes
}

// Bounds on the numbers of orders and nodes with series of their own.
const (
	maxOrders = 1000
	maxNodes  = 1000
)

// New returns metrics that count nothing before Run.
func New(o Options) *Metrics {
	m := &Metrics{
		o: o, metrics: catalogue(), registry: prometheus.NewRegistry(), gathering: make(chan struct{}, 1),
		down: map[string]time.Time{},
	}
	m.root.ask = o.Root
	m.daemon = &series{metrics: m.metrics}
	m.agents = newBounded(m.metrics, labelAgent, o.MaxAgents)
	m.supervisors = newBounded(m.metrics, labelSupervisor, o.MaxAgents)
	m.orders = newBounded(m.metrics, labelOrder, maxOrders)
	m.machines = newBounded(m.metrics, labelNode, maxNodes)
	m.passes = m.histogram(reconcileDuration, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5)
	m.writes = m.histogram(storeWrite, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5)
	m.delay = m.histogram(restartDelay, 0, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900)
	m.recovery = m.histogram(recovery, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.daemon.set(always, buildInfo, 1, o.Version, runtime.Version(), o.Project)
	m.daemon.set(always, upSince, seconds(o.StartedAt))
	m.daemon.add(eventsDropped, 0)
	for _, of := range m.metrics {
		m.families = append(m.families, &dto.MetricFamily{Name: &of.Name, Help: &of.Help, Type: of.Type.Enum()})
	}
	for _, s := range event.Catalogue() {
		for _, e := range s.Entries {
			m.daemon.add(eventsTotal, 0, string(e.Type))
		}
	}
	m.handler = promhttp.HandlerFor(prometheus.GathererFunc(m.gather), promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		// A megabyte takes ten times as long to compress as to write.
		DisableCompression: true,
		ErrorHandling:      promhttp.ContinueOnError, // what could not be measured is missing
		ErrorLog:           slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	})
	return m
}

func (m *Metrics) histogram(of id, buckets ...float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: m.metrics[of].Name, Help: m.metrics[of].Help, Buckets: buckets,
	})
	m.registry.MustRegister(h)
	return h
}

// Passed counts a reconciliation pass that has just ended.
func (m *Metrics) Passed(took time.Duration) {
	if m != nil {
		m.passes.Observe(took.Seconds())
	}
}

// Written counts a commit of the store that has just ended.
func (m *Metrics) Written(took time.Duration) { m.writes.Observe(took.Seconds()) }

// Started notes that all agents were adopted or started once, or that their starts have failed.
func (m *Metrics) Started() {
	if m != nil {
		m.started.Store(true)
	}
}

// Serve answers on an address until ctx ends. On an address that is not a loopback address, any host name is accepted.
func (m *Metrics) Serve(ctx context.Context, address string) {
	s := httpserver.Server{Name: "metrics", Handler: m.Handler(), Logger: m.o.Logger}
	if at, err := netip.ParseAddrPort(address); err == nil && !at.Addr().IsLoopback() {
		s.Hosts = []string{"*"}
	}
	s.Run(ctx, address)
}

// Handler returns the handler of /metrics, /livez and /readyz.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", m.serveMetrics)
	mux.HandleFunc("GET /livez", m.serveLive)
	mux.HandleFunc("GET /readyz", m.serveReady)
	return mux
}

// seconds returns a time as Prometheus has it.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
