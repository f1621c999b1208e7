package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// maxOrders is how many orders there may be.
const maxOrders = 20_000

// orderFile is the file of an order.
type orderFile struct {
	name  string // of the order, which that of the file says
	table *value
}

// readOrders reads the files of orders that match patterns in a directory, which is
// relative to that of the configuration.
func readOrders(r *reader, g *gatherer, dir string, patterns ...string) (all []orderFile) {
	for _, pattern := range patterns {
		found, err := g.glob(dir, strings.Split(pattern, "/"), maxOrders)
		if err != nil {
			r.add(&Error{File: g.show(under(g.absolute(dir), "orders")),
				Message: fmt.Sprintf("cannot be looked through: %v", reason(err))})
			return all
		}
		for _, path := range found {
			if table := readOrder(r, g, path); table != nil {
				all = append(all, orderFile{orderName(path), table})
			}
		}
	}
	return all
}

// orderName is the name of the order in a file.
func orderName(path string) string {
	if dir := filepath.Dir(path); filepath.Base(path) == "order.toml" && filepath.Base(dir) != "orders" {
		return filepath.Base(dir)
	}
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".toml"), ".order")
}

// readOrder reads the file of an order: its keys are those of [[order]], alone or
// below [order].
func readOrder(r *reader, g *gatherer, path string) *value {
	src, err := g.read(path, advice{large: "an order is a few lines"})
	var document *value
	if err == nil {
		document, err = parse(src)
	}
	if err != nil {
		r.add(err)
		return nil
	}
	table := document.byName["order"]
	if table == nil {
		document.name = "order"
		return document
	}
	for _, f := range document.fields {
		if f != table {
			r.fail(f.key, f, "put it below [order], or leave that out", "%s beside [order], expected nothing",
				bareKey(f.name))
		}
	}
	if !r.want(table, isTable, "a table") {
		return nil
	}
	return table
}
