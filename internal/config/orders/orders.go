// Package orders reads [orders] and the orders of a project: those of its coppice.toml, and those that have files of
// their own.
package orders

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

// Add adds an [[order]], which is read later.
func (s *Settings) Add(table *toml.Value) { s.all = append(s.all, form{table: table}) }

// Read reads the orders of a file in dir, and of the directory orders next to it. root is the name of the root of the
// tree. onDisk also checks that directories and commands exist.
func (s *Settings) Read(r *toml.Reader, root, dir string, g *fileset.Set, onDisk bool) []*spec.Order {
	switch {
	case s.Translation != nil:
		s.addFiles(s.Translation.Orders)
	case g.CanRead():
		s.addFiles(orderfile.Read(r, g, ".", "orders/*.toml", "orders/*/order.toml"))
	}
	if len(s.all) > orderfile.Max {
		r.Add(&toml.Error{File: filepath.Join(g.Shown, "orders"),
			Message: fmt.Sprintf("%d orders, expected at most %d", len(s.all), orderfile.Max), Hint: s.TooMany})
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
	override(r, s, known, names)
	skipped := skippedOrders(r, s, known, names)
	var all []*spec.Order
	table := orderTable()
	for i := range s.all {
		o := &s.all[i]
		if known[o.Name] != o.table {
			continue
		}
		o.lenient = s.Translation != nil
		table.Read(r, o.table, o)
		if o.file != "" {
			o.Name = o.file
		}
		if o.path != "" && o.path != root && !strings.HasPrefix(o.path, root+"/") &&
			!strings.HasPrefix(o.path, "orders/") {
			o.path = root + "/" + strings.Trim(o.path, "/") // paths may omit the root everywhere
		}
		finish(r, o, s, dir, skipped[o.Name])
		if onDisk {
			checkFiles(r, o)
		}
		all = append(all, &o.Order)
	}
	return all
}

// addFiles adds orders that have files of their own.
func (s *Settings) addFiles(files []orderfile.File) {
	for _, f := range files {
		s.all = append(s.all, form{table: f.Table, file: f.Name})
	}
}

// readEventType reads a type of events, or a pattern. An unknown type is only a notice in a
// city, as Gas City has types that Coppice does not have.
func readEventType(r *toml.Reader, v *toml.Value, into *form) {
	into.on = append(into.on, v.Text)
	switch wrong, bad := errors.AsType[*event.PatternError](event.CheckPattern(v.Text)); {
	case !bad:
	case into.lenient:
		r.Notice(v, "%s: no event fires this order", wrong.Problem)
	default:
		r.Fail(v, wrong.Hint, "%s", wrong.Problem)
	}
}

// override copies the keys of overrides into the tables of their orders.
func override(r *toml.Reader, s *Settings, known map[string]*toml.Value, names []string) {
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
func skippedOrders(r *toml.Reader, s *Settings, known map[string]*toml.Value, names []string) map[string]bool {
	skipped := make(map[string]bool)
	for _, e := range s.skip {
		switch {
		case known[e.Text] != nil:
			skipped[e.Text] = true
		case s.Translation != nil: // Gas City accepts it, as packs come and go
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
