package metrics

import (
	"bytes"
	"net/http"
	"os"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/coppice-dev/coppice/internal/budget"
	"github.com/coppice-dev/coppice/internal/cluster/nodes"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/order/dispatch"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/quota"
	"github.com/coppice-dev/coppice/internal/status"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/task"
	"github.com/coppice-dev/coppice/internal/usage"
	"github.com/coppice-dev/coppice/supervisor"
)

// serveMetrics answers a scrape. One at a time is gathered: if a part of the daemon hangs, scrapes wait until their
// clients leave.
func (m *Metrics) serveMetrics(w http.ResponseWriter, r *http.Request) {
	a := m.encode(w.Header(), r)
	if a == nil {
		return
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	w.Write(a.Bytes())
}

// answer is a http.ResponseWriter in memory, so that a slow reader holds up nothing.
type answer struct {
	bytes.Buffer
	header http.Header
	status int
}

func (a *answer) Header() http.Header    { return a.header }
func (a *answer) WriteHeader(status int) { a.status = status }

// encode gathers a scrape and encodes it. It returns nil if the client has left before.
func (m *Metrics) encode(header http.Header, r *http.Request) *answer {
	select {
	case m.gathering <- struct{}{}:
		defer func() { <-m.gathering }()
	case <-r.Context().Done():
		return nil
	}
	now := m.read()
	a := &answer{header: header}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.update(now)
	a.Grow(m.size + m.size/8)
	m.handler.ServeHTTP(a, r)
	m.size = a.Len()
	return a
}

// reading has the values that gauges show.
type reading struct {
	at        time.Time
	nodes     []status.Node
	machines  []nodes.Summary
	questions []question.Question
	tasks     map[task.Status]int
	orders    []dispatch.View
	quotas    []quota.Info
	budgets   []budget.Info
	usage     map[string]usage.Resources
	writable  bool
	writes    store.Writes
	bytes     int64 // of the store; 0 if that is not known
}

// read collects the values that gauges show, while nothing is locked: the features have locks of their own.
func (m *Metrics) read() reading {
	all, err := m.o.Nodes()
	if err != nil {
		m.o.Logger.Warn("cannot list agents to measure them", "error", err)
	}
	r := reading{
		nodes: all, machines: m.o.Machines(), questions: m.o.Questions(), tasks: m.o.Tasks(), orders: m.o.Orders(),
		quotas: m.o.Quotas(), budgets: m.o.Budgets(), usage: m.o.Usage(), writable: m.o.Writable() == nil,
		writes: m.o.Writes(),
	}
	if m.o.StorePath != "" {
		r.bytes = fileSize(m.o.StorePath) + fileSize(m.o.StorePath+"-wal")
	}
	r.at = time.Now()
	return r
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// update makes the series of a scrape: it sets all gauges, and drops the series of what there is no longer. Needs mu.
func (m *Metrics) update(r reading) {
	m.scrape++
	for _, f := range m.families {
		f.Metric = f.Metric[:0]
	}
	m.daemon.at(storeTransactions).value = float64(r.writes.Transactions)
	m.daemon.at(storeRecords).value = float64(r.writes.Records)
	m.daemon.at(storeWritten).value = float64(r.writes.Bytes)
	m.show(m.daemon)
	m.setNodes(r)
	m.setOrders(r.orders)
	m.setMachines(r.machines)
	once := &series{metrics: m.metrics}
	g := func(of id, value float64, values ...string) { once.set(m.scrape, of, value, values...) }
	if at := m.o.LastPass(); !at.IsZero() {
		g(reconcileLast, seconds(at))
	}
	g(storeWritable, number(r.writable))
	if r.bytes > 0 {
		g(storeBytes, float64(r.bytes))
	}
	for state, n := range status.Summarize(r.nodes) {
		g(agents, float64(n), state)
	}
	unresponsive := 0
	for _, n := range r.nodes {
		if n.Vitals != nil && n.Vitals.Unresponsive {
			unresponsive++
		}
	}
	g(agentsUnresponsive, float64(unresponsive))
	g(questionsOpen, float64(len(r.questions)))
	for i, q := range r.questions {
		if i == 0 { // the oldest one
			g(questionOldest, seconds(q.At))
		}
	}
	for _, s := range task.Statuses() {
		g(tasks, float64(r.tasks[s]), string(s))
	}
	for _, b := range r.budgets {
		g(budgetReached, number(b.State == budget.Reached), b.Name)
		for _, l := range b.Limits {
			g(budgetRemaining, max(0, 1-l.Used/l.Max), b.Name, l.Limit)
		}
	}
	for _, q := range r.quotas[:min(len(r.quotas), m.o.MaxAgents)] { // an account that is not declared may be an agent
		g(quotaOpen, number(q.State == quota.Open), q.Name)
		g(quotaWaiting, float64(len(q.Waiting)), q.Name)
		if !q.Until.IsZero() {
			g(quotaRetry, seconds(q.Until), q.Name)
		}
		for _, w := range q.Used {
			g(quotaUsed, w.Used, q.Name, w.Name)
			g(quotaReset, seconds(w.Reset), q.Name, w.Name)
		}
	}
	m.show(once)
}

// setNodes shows agents and supervisors. Needs mu.
func (m *Metrics) setNodes(r reading) {
	var shown []*series
	see := func(s *series) *series {
		if s.seen != m.scrape {
			s.seen = m.scrape
			shown = append(shown, s)
		}
		return s
	}
	for i := range r.nodes {
		n := &r.nodes[i]
		limit, used := agentLimit, agentInWindow
		var s *series
		if n.Kind == "agent" {
			s = see(m.agents.of(n.Path))
			running := n.State == supervisor.Running.String()
			s.set(m.scrape, agentUp, number(running))
			if running && n.StartedAt != nil && !s.shared {
				s.set(m.scrape, agentStarted, seconds(*n.StartedAt))
			}
			if u, ok := r.usage[n.Path]; ok && !s.shared {
				s.set(m.scrape, agentMemory, float64(u.Memory))
				s.at(agentCPU).value = u.CPUTime.Seconds()
			}
			if v := n.Vitals; v != nil && (v.Progress != nil || v.Note != "") && !s.shared {
				at := r.at.Add(-time.Duration(v.ProgressAge * float64(time.Second)))
				s.set(m.scrape, agentProgress, float64(at.Round(time.Second).Unix())) // it is known by its age
			}
		} else {
			limit, used = supervisorLimit, supervisorInWindow
			s = see(m.supervisors.of(n.Path))
		}
		if n.LimitMax >= 0 && !s.shared {
			s.set(m.scrape, used, float64(n.InWindow))
			s.set(m.scrape, limit, float64(n.LimitMax))
		}
	}
	m.agents.sweep(m.scrape)
	m.supervisors.sweep(m.scrape)
	for _, s := range shown {
		m.show(s)
	}
}

// setOrders shows orders. Needs mu.
func (m *Metrics) setOrders(all []dispatch.View) {
	for _, v := range all {
		s := m.orders.of(v.Order.Name)
		s.add(ordersFailed, 0)
		if last := v.Last; last != nil && last.Status == order.Completed {
			m.succeeded(v.Order.Name, last.EndedAt)
		}
		if s.seen != m.scrape {
			s.seen = m.scrape
			defer m.show(s)
		}
	}
	m.orders.sweep(m.scrape)
}

// setMachines shows the nodes of the fleet. Needs mu.
func (m *Metrics) setMachines(all []nodes.Summary) {
	if len(all) == 0 {
		return
	}
	states := &series{metrics: m.metrics}
	for _, state := range []nodes.State{nodes.Ready, nodes.Draining, nodes.Lost, nodes.Joined} {
		states.set(m.scrape, fleetNodes, 0, string(state))
	}
	for _, n := range all {
		states.set(m.scrape, fleetNodes, 1, string(n.State))
		s := m.machines.of(n.Name)
		s.set(m.scrape, nodeAgents, float64(n.Agents))
		if s.seen != m.scrape {
			s.seen = m.scrape
			defer m.show(s)
		}
	}
	m.machines.sweep(m.scrape)
	m.show(states)
}

// show adds series to a scrape: counters, and the gauges that it has set. Needs mu.
func (m *Metrics) show(s *series) {
	for _, p := range s.points {
		of := &m.metrics[p.id]
		if of.Type == gauge && p.set != m.scrape && p.set != always {
			continue
		}
		f := m.families[p.id]
		f.Metric = append(f.Metric, &p.dto)
	}
}

// gather returns the series of a scrape, and what the library measures. Needs mu.
func (m *Metrics) gather() ([]*dto.MetricFamily, error) {
	all, err := m.registry.Gather()
	for _, f := range m.families {
		if len(f.Metric) > 0 {
			all = append(all, f)
		}
	}
	return all, err
}

// number returns 1 if something holds.
func number(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
