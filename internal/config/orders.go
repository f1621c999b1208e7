package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/orderfile"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/order"
	"github.com/coppice-dev/coppice/internal/spec"
)

// readOrders reads the orders of a file and of the directory orders next to it.
func readOrders(r *toml.Reader, f *file, dir string, g *fileset.Set, onDisk bool) []*spec.Order {
	s := &f.orders
	switch {
	case s.translation != nil:
		s.add(s.translation.Orders)
	case g.CanRead():
		s.add(orderfile.Read(r, g, ".", "orders/*.toml", "orders/*/order.toml"))
	}
	if len(s.all) > orderfile.Max {
		r.Add(&toml.Error{File: filepath.Join(g.Shown, "orders"),
			Message: fmt.Sprintf("%d orders, expected at most %d", len(s.all), orderfile.Max), Hint: fleet.Large})
	}
	known := make(map[string]*toml.Value)
	var names []string
	for i := range s.all {
		o := &s.all[i]
		name := o.table.Field("name")
		switch {
		case name != nil && name.Kind == toml.KindString && o.file == "":
			o.Name = name.Text
		case o.file != "":
			o.Name = o.file
			if name != nil && name.Text != o.file {
				r.Fail(name, "remove it, or rename the file",
					"name is %s in a file called %s, expected the same", spec.Quote(name.Text), spec.Quote(o.file))
			}
		default:
			r.Fail(o.table, "", "[[order]] without name, expected one (string)")
			continue
		}
		if err := order.CheckName(o.Name); err != nil {
			r.Fail(cmp.Or(name, o.table), "", "the name of an order %v", err)
		}
		if other := known[o.Name]; other != nil {
			r.Fail(o.table, "", "there are two orders called %s, the other one in line %d of %s, expected one",
				spec.Quote(o.Name), other.Line(), other.Source.Name)
			continue
		}
		known[o.Name] = o.table
		names = append(names, o.Name)
	}
	overrideOrders(r, s, known, names)
	skipped := skippedOrders(r, s, known, names)
	var all []*spec.Order
	table := orderTable()
	for i := range s.all {
		o := &s.all[i]
		if known[o.Name] != o.table {
			continue
		}
		o.lenient = s.translation != nil
		table.Read(r, o.table, o)
		if o.file != "" {
			o.Name = o.file
		}
		if root := f.root.Name; o.path != "" && o.path != root && !strings.HasPrefix(o.path, root+"/") &&
			!strings.HasPrefix(o.path, "orders/") {
			o.path = root + "/" + strings.Trim(o.path, "/") // paths may omit the root everywhere
		}
		finishOrder(r, o, s, dir, skipped[o.Name])
		if onDisk {
			checkOrderFiles(r, o)
		}
		all = append(all, &o.Order)
	}
	return all
}

// add adds orders that have files of their own.
func (s *orderSettings) add(files []orderfile.File) {
	for _, f := range files {
		s.all = append(s.all, orderForm{table: f.Table, file: f.Name})
	}
}

// readEventType reads a type of events, or a pattern. An unknown type is only a notice in a
// city, as Gas City has types that Coppice does not have.
func readEventType(r *toml.Reader, v *toml.Value, into *orderForm) {
	into.on = append(into.on, v.Text)
	switch wrong, bad := errors.AsType[*event.PatternError](event.CheckPattern(v.Text)); {
	case !bad:
	case into.lenient:
		r.Notice(v, "%s: no event fires this order", wrong.Problem)
	default:
		r.Fail(v, wrong.Hint, "%s", wrong.Problem)
	}
}

// overrideOrders copies the keys of overrides into the tables of their orders.
func overrideOrders(r *toml.Reader, s *orderSettings, known map[string]*toml.Value, names []string) {
	for _, o := range s.overrides {
		name := o.Field("name")
		if name == nil {
			r.Fail(o, "", "[[orders.overrides]] without name, expected that of an order")
			continue
		}
		table := known[name.Text]
		if name.Kind != toml.KindString || table == nil {
			r.Fail(name, noOrder(name.Text, names), "there is no order %s to override", spec.Quote(name.Text))
			continue
		}
		for _, f := range slices.Clone(o.Fields) {
			if f == name {
				continue
			}
			if old := table.Field(f.Name); old != nil {
				table.Replace(old, f)
			} else {
				table.Adopt(f)
			}
		}
	}
}

// skippedOrders returns the names of the orders in skip.
func skippedOrders(r *toml.Reader, s *orderSettings, known map[string]*toml.Value, names []string) map[string]bool {
	skipped := make(map[string]bool)
	for _, e := range s.skip {
		switch {
		case known[e.Text] != nil:
			skipped[e.Text] = true
		case s.translation != nil: // Gas City accepts it, as packs come and go
			r.Notice(e, "there is no order %s to skip; %s", spec.Quote(e.Text), noOrder(e.Text, names))
		default:
			r.Fail(e, noOrder(e.Text, names), "there is no order %s to skip", spec.Quote(e.Text))
		}
	}
	return skipped
}

func noOrder(name string, names []string) string {
	if len(names) == 0 {
		return "there are no orders"
	}
	return cmp.Or(spec.DidYouMean(name, names...), "remove it")
}
