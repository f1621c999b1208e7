package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Summary has the statistics of repetitions of one measurement.
type Summary struct {
	Median, Min, Max float64
	Reps             int // measurements in it
}

// Summarize is the zero Summary for no values. The median of an even number
// of values is the mean of the two in the middle.
func Summarize(v []float64) Summary {
	if len(v) == 0 {
		return Summary{}
	}
	v = slices.Sorted(slices.Values(v))
	mid := len(v) / 2
	median := v[mid]
	if len(v)%2 == 0 {
		median = (v[mid-1] + v[mid]) / 2
	}
	return Summary{Median: median, Min: v[0], Max: v[len(v)-1], Reps: len(v)}
}

func (s Summary) String() string {
	switch s.Reps {
	case 0:
		return "-"
	case 1:
		return number(s.Median)
	}
	return fmt.Sprintf("%s [%s..%s]", number(s.Median), number(s.Min), number(s.Max))
}

// number writes about three significant digits, and thousands with commas.
func number(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1000:
		s := strconv.FormatInt(int64(math.Round(a)), 10)
		var b strings.Builder
		if x < 0 {
			b.WriteByte('-')
		}
		for i, c := range s {
			if i > 0 && (len(s)-i)%3 == 0 {
				b.WriteByte(',')
			}
			b.WriteRune(c)
		}
		return b.String()
	case a == math.Trunc(a):
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	default:
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
}

func ratio(x float64) string {
	if x >= 100 {
		return number(math.Round(x))
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// key identifies a repeated measurement.
type key struct {
	scenario string
	n        int
	impl     string
	metric   string
}

// Results are the rows of one run.
type Results struct {
	values map[key][]float64
	ns     map[string][]int // of each scenario, ascending
	impls  []string         // in order of first appearance
	Failed []Row            // rows without metrics
	Left   []Row            // rows with a note: all or some of their metrics are missing
}

// Collect sorts rows by what they measure.
func Collect(rows []Row) *Results {
	r := &Results{values: map[key][]float64{}, ns: map[string][]int{}}
	for _, row := range rows {
		if row.Error != "" {
			r.Failed = append(r.Failed, row)
			continue
		}
		if row.Note != "" {
			r.Left = append(r.Left, row)
		}
		if !slices.Contains(r.ns[row.Scenario], row.N) {
			r.ns[row.Scenario] = append(r.ns[row.Scenario], row.N)
			slices.Sort(r.ns[row.Scenario])
		}
		if !slices.Contains(r.impls, row.Impl) {
			r.impls = append(r.impls, row.Impl)
		}
		for m, v := range row.Metrics {
			k := key{row.Scenario, row.N, row.Impl, m}
			r.values[k] = append(r.values[k], v)
		}
	}
	return r
}

func (r *Results) summary(k key) Summary { return Summarize(r.values[k]) }
