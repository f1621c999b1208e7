// Package orderfile reads files that contain one order each.
package orderfile

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/coppice-dev/coppice/internal/config/fileset"
	"github.com/coppice-dev/coppice/internal/config/toml"
)

// Max is the largest number of orders.
const Max = 20_000

// File is the file of an order.
type File struct {
	Name  string // name of the order, from that of the file
	Table *toml.Value
}

// Read reads the files of orders that match patterns below dir, which is relative to the
// directory of the configuration.
func Read(r *toml.Reader, g *fileset.Set, dir string, patterns ...string) (all []File) {
	for _, pattern := range patterns {
		found, err := g.Glob(dir, strings.Split(pattern, "/"), Max)
		if err != nil {
			r.Add(&toml.Error{File: g.Show(toml.Absolute(g.Absolute(dir), "orders")),
				Message: fmt.Sprintf("cannot be searched: %v", toml.Reason(err))})
			return all
		}
		for _, path := range found {
			if table := readFile(r, g, path); table != nil {
				all = append(all, File{nameOf(path), table})
			}
		}
	}
	return all
}

// nameOf returns the name of the order in a file.
func nameOf(path string) string {
	if dir := filepath.Dir(path); filepath.Base(path) == "order.toml" && filepath.Base(dir) != "orders" {
		return filepath.Base(dir)
	}
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".toml"), ".order")
}

// readFile reads the file of an order. It has the keys of [[order]], at the top or below
// [order].
func readFile(r *toml.Reader, g *fileset.Set, path string) *toml.Value {
	src, err := g.Read(path, toml.Advice{Large: "an order is a few lines"})
	var document *toml.Value
	if err == nil {
		document, err = toml.Parse(src)
	}
	if err != nil {
		r.Add(err)
		return nil
	}
	table := document.Field("order")
	if table == nil {
		document.Name = "order"
		return document
	}
	for _, f := range document.Fields {
		if f != table {
			r.FailKey(f, "put it below [order], or leave that out", "%s next to [order], expected no other key",
				toml.BareKey(f.Name))
		}
	}
	if !r.Want(table, toml.KindTable, "a table") {
		return nil
	}
	return table
}
