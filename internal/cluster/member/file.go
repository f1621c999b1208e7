package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-dev/coppice/internal/cluster/identity"
	"github.com/coppice-dev/coppice/internal/cluster/join"
	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/store/etcd"
)

const (
	nodeFile    = "node.json"
	lockFile    = "lock"
	nodeVersion = 1
	maxNodeFile = 64 << 10

	repeat = "remove " + nodeFile + ", and run coppice cluster init or coppice cluster join again, which keep the " +
		"key of this node"
)

// ErrIncomplete is returned if this machine was about to become a node.
var ErrIncomplete = errors.New("this machine has a certificate of a node, and no settings: it has not finished " +
	"becoming a node, or " + nodeFile + " was removed; run coppice cluster init or coppice cluster join again")

// stored is the content of node.json.
type stored struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	Settings
	Store string `json:"store"` // URL, with the names of files in the directory
}

// node is what node.json and the files that it names have.
type node struct {
	name     string
	settings Settings
	location etcd.Location // with the names of files in the directory
	files    contents
}

// readNode reads node.json and the files that it names. The error wraps fs.ErrNotExist only if there is no node.json,
// and is ErrIncomplete if there is a certificate without one.
func readNode(dir string) (node, error) {
	if err := private.Dir(dir); err != nil {
		return node{}, err
	}
	file := filepath.Join(dir, nodeFile)
	text, err := private.ReadSecret(file, maxNodeFile)
	if errors.Is(err, fs.ErrNotExist) {
		if identity.Exists(dir) {
			return node{}, fmt.Errorf("%s: %w", dir, ErrIncomplete)
		}
		return node{}, err
	}
	if err != nil {
		return node{}, withFix(err)
	}
	n, err := parseNode(text)
	switch {
	case errors.Is(err, errNewer):
		return node{}, fmt.Errorf("%s cannot be used: %w", file, err)
	case err != nil:
		return node{}, fmt.Errorf("%s is damaged: %w; %s", file, err, repeat)
	}
	n.files = contents{}
	for kind, name := range namesIn(&n.location) {
		if *name == "" {
			continue
		}
		text, err := private.ReadSecret(filepath.Join(dir, *name), join.MaxBundle)
		if errors.Is(err, fs.ErrNotExist) { // which would mean that this machine is no node
			return node{}, fmt.Errorf("%s, which %s names, is missing; %s", filepath.Join(dir, *name), nodeFile, repeat)
		}
		if err != nil {
			return node{}, withFix(err)
		}
		if n.files[kind] = text; n.files.fileName(kind) != *name {
			return node{}, fmt.Errorf("%s has another content than when it was written; %s",
				filepath.Join(dir, *name), repeat)
		}
	}
	return n, nil
}

// withFix adds what to do to the error of a file for which package private knows no remedy.
func withFix(err error) error {
	if unsafe := new(private.Error); errors.As(err, &unsafe) && unsafe.Fix == "" {
		return fmt.Errorf("%w; %s", err, repeat)
	}
	return err
}

// parseNode reads the text of node.json.
func parseNode(text []byte) (n node, err error) {
	var s stored
	if err := decodeStrict(text, nodeVersion, &s); err != nil {
		return n, err
	}
	if err := pki.CheckName(s.Name); err != nil {
		return n, err
	}
	if err := s.check(); err != nil {
		return n, err
	}
	l, err := etcd.ParseLocation(s.Store)
	if err != nil {
		return n, fmt.Errorf("the URL of the store: %w", err)
	}
	for kind, name := range namesIn(&l) {
		rest, ok := strings.CutPrefix(*name, storePrefix+kind+"-")
		if *name != "" && (!ok || rest == "" || strings.Trim(rest, "0123456789abcdef") != "") {
			return n, fmt.Errorf("the URL of the store names the file %.100q; expected %s", *name,
				storePrefix+kind+"-...")
		}
	}
	return node{name: s.Name, settings: s.Settings, location: l}, nil
}

// stage writes copies of the files of a store, and returns the location that names them.
func stage(dir string, l etcd.Location, files contents) (etcd.Location, error) {
	for _, kind := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(dir, files.fileName(kind))
		if err := private.ReplaceSynced(file, files[kind]); err != nil {
			return l, fmt.Errorf("writing a file of the store: %w", err)
		}
	}
	return renamed(l, files.fileName), nil
}

// write writes node.json, which names files that were staged.
func (n node) write(dir string) error {
	text, err := json.MarshalIndent(stored{nodeVersion, n.name, n.settings, n.location.String()}, "", "  ")
	if err != nil {
		return err
	}
	if err := private.ReplaceSynced(filepath.Join(dir, nodeFile), append(text, '\n')); err != nil {
		return fmt.Errorf("writing the settings of this node: %w", err)
	}
	return nil
}

// sweep removes copies of files of a store that are not those of a location, and what a crash has left half written.
func sweep(dir string, keep etcd.Location) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		kept := false
		for _, file := range namesIn(&keep) {
			kept = kept || *file == name
		}
		half := strings.HasPrefix(name, "."+storePrefix) || strings.HasPrefix(name, "."+nodeFile+"-")
		if (half || strings.HasPrefix(name, storePrefix)) && !kept {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}
