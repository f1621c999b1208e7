package metrics

import (
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// point is a series with its value. What the library encodes is kept with it: a scrape only sets values.
type point struct {
	id     id
	values []string // of its labels
	value  float64
	set    uint64 // the scrape that has set it; of a gauge
	dto    dto.Metric
}

// newPoint returns a series of a metric. shared is the first label, if it is not nil.
func newPoint(of id, m Metric, shared *dto.LabelPair, values []string) *point {
	p := &point{id: of, values: values}
	for i, name := range m.Labels {
		label := shared
		if i > 0 || shared == nil {
			label = &dto.LabelPair{Name: new(name), Value: new(values[i])}
		}
		p.dto.Label = append(p.dto.Label, label)
	}
	if m.Type == counter {
		p.dto.Counter = &dto.Counter{Value: &p.value}
	} else {
		p.dto.Gauge = &dto.Gauge{Value: &p.value}
	}
	return p
}

// series are the series of one value of a label, such as those of an agent.
type series struct {
	metrics []Metric
	label   *dto.LabelPair // nil if they share none
	points  []*point
	shared  bool   // other values share them
	seen    uint64 // the last scrape that knew the value
}

// at returns the series of a metric, with the values of the labels that are not shared. It makes one that is missing.
func (s *series) at(of id, values ...string) *point {
	for i := range values {
		values[i] = strings.ToValidUTF8(values[i], "\uFFFD")
	}
	first := 0
	if s.label != nil {
		first = 1
	}
	for _, p := range s.points {
		if p.id == of && slices.Equal(p.values[first:], values) {
			return p
		}
	}
	if s.label != nil {
		values = append([]string{s.label.GetValue()}, values...)
	}
	p := newPoint(of, s.metrics[of], s.label, values)
	s.points = append(s.points, p)
	return p
}

// always stands for all scrapes.
const always = ^uint64(0)

// add adds to a counter.
func (s *series) add(of id, n float64, values ...string) { s.at(of, values...).value += n }

// set sets a gauge in a scrape, or adds to what the same scrape has set.
func (s *series) set(scrape uint64, of id, value float64, values ...string) {
	p := s.at(of, values...)
	if p.set == scrape {
		value += p.value
	}
	p.value, p.set = value, scrape
}

// has reports whether another value of a label can have a series of its own, of which a metric has at most most.
// Otherwise the series of other is meant.
func (s *series) has(of id, place, most int, value string) bool {
	var all []string
	for _, p := range s.points {
		if p.id == of && !slices.Contains(all, p.values[place]) {
			all = append(all, p.values[place])
		}
	}
	return len(all) < most || slices.Contains(all, value)
}

// others is the value of a label for everything that has no series of its own.
const others = "*"

// bounded keeps the series of a bounded number of values of a label. Beyond that, values share a series: agents that
// of their supervisor, the others one for all.
type bounded struct {
	metrics []Metric
	label   string
	max     int
	all     map[string]*series
	shared  int // how many of all are shared
}

func newBounded(metrics []Metric, label string, most int) *bounded {
	return &bounded{metrics: metrics, label: label, max: most, all: map[string]*series{}}
}

// of returns the series of a value, or those that it shares.
func (b *bounded) of(value string) *series {
	value = strings.ToValidUTF8(value, "\uFFFD")
	above, name := "", value
	if i := strings.LastIndexByte(value, '/'); i >= 0 && b.label == labelAgent {
		above, name = value[:i+1], value[i+1:]
	}
	if name != others { // an agent may have that name: it is counted with those that share a series
		if s := b.all[value]; s != nil {
			return s
		}
		if len(b.all)-b.shared < b.max {
			return b.make(value, false)
		}
	}
	value = above + others
	if s := b.all[value]; s != nil {
		return s
	}
	if b.shared >= b.max {
		value = others
		if s := b.all[value]; s != nil {
			return s
		}
	}
	return b.make(value, true)
}

func (b *bounded) make(value string, shared bool) *series {
	s := &series{metrics: b.metrics, label: &dto.LabelPair{Name: new(b.label), Value: new(value)}, shared: shared}
	b.all[value] = s
	if shared {
		b.shared++
	}
	return s
}

// remove removes the series of a value, unless others share them.
func (b *bounded) remove(value string) {
	if s := b.all[value]; s != nil && !s.shared {
		delete(b.all, value)
	}
}

// sweep removes the series of values that a scrape has not seen.
func (b *bounded) sweep(scrape uint64) {
	for value, s := range b.all {
		if s.seen != scrape {
			delete(b.all, value)
			if s.shared {
				b.shared--
			}
		}
	}
}
