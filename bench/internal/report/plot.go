package report

import (
	"io"
	"math"
	"slices"
)

// Sizes of a plot and its parts, in pixels.
const (
	plotWidth, plotHeight = 380, 270
	left, right           = 52, 26 // margins around the axes of a plot
	top, bottom           = 34, 34
	legend                = 30 // above all plots
	perRow                = 2
)

// line is one implementation in a plot.
type line struct {
	name   string
	points [][2]float64 // n and the median, both above 0, n ascending
}

// plot is a metric over n.
type plot struct {
	title string
	lines []line
}

// plot returns the growth of a metric of a scenario. Values that no logarithmic axis can show are left out.
func (r *Results) plot(scenario, metric, title string) plot {
	p := plot{title: title}
	for _, impl := range r.impls {
		l := line{name: impl}
		for _, n := range r.ns[scenario] {
			if s := r.summary(key{scenario, n, impl, metric}); s.Median > 0 && n > 0 {
				l.points = append(l.points, [2]float64{float64(n), s.Median})
			}
		}
		if len(l.points) > 0 {
			p.lines = append(p.lines, l)
		}
	}
	return p
}

// axis maps values to pixels, by their logarithms.
type axis struct {
	low, high float64 // decades
	from, to  float64 // pixels
}

// newAxis covers values with whole decades, at least one.
func newAxis(values []float64, from, to float64) axis {
	a := axis{low: math.Floor(math.Log10(slices.Min(values))), high: math.Ceil(math.Log10(slices.Max(values))),
		from: from, to: to}
	if a.high <= a.low {
		a.high = a.low + 1
	}
	return a
}

func (a axis) at(v float64) float64 {
	return a.from + (math.Log10(v)-a.low)/(a.high-a.low)*(a.to-a.from)
}

// decades are the values of the grid.
func (a axis) decades() []float64 {
	var d []float64
	for e := a.low; e <= a.high; e++ {
		d = append(d, math.Pow(10, e))
	}
	return d
}

// colour returns a colour that people with any colour vision tell from the others (Okabe and Ito).
func colour(i int) string {
	colours := []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#000000"}
	return colours[i%len(colours)]
}

// writePlots writes plots as one SVG image. Each implementation has the same colour in all.
func writePlots(w io.Writer, plots []plot) error {
	var names []string
	for _, p := range plots {
		for _, l := range p.lines {
			if !slices.Contains(names, l.name) {
				names = append(names, l.name)
			}
		}
	}
	rows := (len(plots) + perRow - 1) / perRow
	e := &errWriter{w: w}
	e.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n",
		perRow*plotWidth, legend+rows*plotHeight)
	e.printf("<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n")
	for i, name := range names {
		x := left + i*140
		e.printf("<path d=\"M%d 16h20\" stroke=\"%s\" stroke-width=\"2\"/><text x=\"%d\" y=\"20\">%s</text>\n",
			x, colour(i), x+26, escape(name))
	}
	for i, p := range plots {
		e.printf("<g transform=\"translate(%d %d)\">\n", i%perRow*plotWidth, legend+i/perRow*plotHeight)
		p.write(e, names)
		e.printf("</g>\n")
	}
	e.printf("</svg>\n")
	return e.err
}

func (p plot) write(e *errWriter, names []string) {
	e.printf("<text x=\"%d\" y=\"20\" font-weight=\"bold\">%s</text>\n", left, escape(p.title))
	var xs, ys []float64
	for _, l := range p.lines {
		for _, at := range l.points {
			xs, ys = append(xs, at[0]), append(ys, at[1])
		}
	}
	if len(xs) == 0 {
		return
	}
	x, y := newAxis(xs, left, plotWidth-right), newAxis(ys, plotHeight-bottom, top)
	for _, v := range x.decades() {
		e.printf("<path d=\"M%.1f %.1fV%.1f\" stroke=\"#dddddd\"/><text x=\"%.1f\" y=\"%.1f\" "+
			"text-anchor=\"middle\">%s</text>\n", x.at(v), y.from, y.to, x.at(v), y.from+16, number(v))
	}
	for _, v := range y.decades() {
		e.printf("<path d=\"M%.1f %.1fH%.1f\" stroke=\"#dddddd\"/><text x=\"%.1f\" y=\"%.1f\" "+
			"text-anchor=\"end\">%s</text>\n", x.from, y.at(v), x.to, x.from-6, y.at(v)+4, number(v))
	}
	for _, l := range p.lines {
		c := colour(slices.Index(names, l.name))
		e.printf("<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"", c)
		for i, at := range l.points {
			e.printf("%c%.1f %.1f", "ML"[min(i, 1)], x.at(at[0]), y.at(at[1]))
		}
		e.printf("\"/>\n")
		for _, at := range l.points {
			e.printf("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%s, n=%s: %s</title></circle>\n",
				x.at(at[0]), y.at(at[1]), c, escape(l.name), number(at[0]), number(at[1]))
		}
	}
}
