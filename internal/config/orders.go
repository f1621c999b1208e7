package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/suggest"
)

// orders makes the orders of a file, and of those beside it.
func (r *reader) orders(f *file, dir string, g *gatherer, look bool) []*spec.Order {
	s := &f.standing
	switch {
	case s.translation != nil:
		s.add(s.translation.orders)
	case g.canRead():
		s.add(readOrders(r, g, ".", "orders/*.toml", "orders/*/order.toml"))
	}
	if len(s.all) > maxOrders {
		r.add(&Error{File: filepath.Join(g.shown, "orders"),
			Message: fmt.Sprintf("%d orders, expected at most %d", len(s.all), maxOrders), Hint: fleet.large})
	}
	known := make(map[string]*value)
	var names []string
	for i := range s.all {
		o := &s.all[i]
		name := o.table.byName["name"]
		switch {
		case name != nil && name.kind == isString && o.file == "":
			o.Name = name.text
		case o.file != "":
			o.Name = o.file
			if name != nil && name.text != o.file {
				r.fail(name.at, name, "remove it, or rename the file",
					"name is %s in a file called %s, expected the same", spec.Quote(name.text), spec.Quote(o.file))
			}
		default:
			r.fail(o.table.at, o.table, "", "[[order]] without name, expected one (string)")
			continue
		}
		if err := order.CheckName(o.Name); err != nil {
			at := cmp.Or(name, o.table)
			r.fail(at.at, at, "", "the name of an order %v", err)
		}
		if other := known[o.Name]; other != nil {
			line, _ := other.src.position(other.at)
			r.fail(o.table.at, o.table, "", "there are two orders called %s, the other one in "+
				"line %d of %s, expected one", spec.Quote(o.Name), line, other.src.name)
			continue
		}
		known[o.Name] = o.table
		names = append(names, o.Name)
	}
	r.override(s, known, names)
	skipped := r.skips(s, known, names)
	var all []*spec.Order
	table := orderTable()
	for i := range s.all {
		o := &s.all[i]
		if known[o.Name] != o.table {
			continue
		}
		o.lenient = s.translation != nil
		table.read(r, o.table, o)
		if o.file != "" {
			o.Name = o.file
		}
		if root := f.root.Name; o.path != "" && o.path != root && !strings.HasPrefix(o.path, root+"/") &&
			!strings.HasPrefix(o.path, "orders/") {
			o.path = root + "/" + strings.Trim(o.path, "/") // as paths are meant everywhere
		}
		r.finish(o, s, dir, skipped[o.Name])
		if look {
			r.lookFor(o)
		}
		all = append(all, &o.Order)
	}
	return all
}

// add adds the orders that have files of their own.
func (s *standing) add(files []orderFile) {
	for _, f := range files {
		s.all = append(s.all, orderForm{table: f.table, file: f.name})
	}
}

// eventType reads a type of events, or a pattern of them. Gas City has types that
// Coppice does not have, so that in a city one that nothing has is no error.
func (r *reader) eventType(v *value, into *orderForm) {
	into.on = append(into.on, v.text)
	var wrong *event.PatternError
	if !errors.As(event.CheckPattern(v.text), &wrong) {
		return
	}
	if into.lenient {
		r.notice(v, "%s: no event fires this order", wrong.Problem)
		return
	}
	r.fail(v.at, v, wrong.Hint, "%s", wrong.Problem)
}

// override puts the keys of overrides into the tables of their orders.
func (r *reader) override(s *standing, known map[string]*value, names []string) {
	for _, o := range s.overrides {
		name := o.byName["name"]
		if name == nil {
			r.fail(o.at, o, "", "[[orders.overrides]] without name, expected that of an order")
			continue
		}
		table := known[name.text]
		if name.kind != isString || table == nil {
			r.fail(name.at, name, noOrder(name.text, names), "there is no order %s to override", spec.Quote(name.text))
			continue
		}
		for _, f := range slices.Clone(o.fields) {
			if f == name {
				continue
			}
			if old := table.byName[f.name]; old != nil {
				table.replace(old, f)
			} else {
				table.adopt(f)
			}
		}
	}
}

// skips are the names of the orders that are to be skipped.
func (r *reader) skips(s *standing, known map[string]*value, names []string) map[string]bool {
	skipped := make(map[string]bool)
	for _, e := range s.skip {
		switch {
		case known[e.text] != nil:
			skipped[e.text] = true
		case s.translation != nil: // as Gas City, where packs come and go
			r.notice(e, "there is no order %s to skip; %s", spec.Quote(e.text), noOrder(e.text, names))
		default:
			r.fail(e.at, e, noOrder(e.text, names), "there is no order %s to skip", spec.Quote(e.text))
		}
	}
	return skipped
}

func noOrder(name string, names []string) string {
	if near := suggest.Nearest(name, names); near != "" {
		return "did you mean " + spec.Quote(near) + "?"
	}
	if len(names) == 0 {
		return "there are no orders"
	}
	return "remove it"
}
