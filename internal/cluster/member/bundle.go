package member

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/coppice-dev/coppice/internal/cluster/join"
	"github.com/coppice-dev/coppice/internal/private"
	"github.com/coppice-dev/coppice/internal/store/etcd"
)

// contents are those of the files that a location of a store names, by kind: ca, cert, key or password.
type contents map[string][]byte

// namesIn returns the names of files in a location, by kind.
func namesIn(l *etcd.Location) map[string]*string {
	return map[string]*string{"ca": &l.CA, "cert": &l.Cert, "key": &l.Key, "password": &l.PasswordFile}
}

// renamed returns a location whose files have other names.
func renamed(l etcd.Location, name func(kind string) string) etcd.Location {
	for kind, file := range namesIn(&l) {
		if *file != "" {
			*file = name(kind)
		}
	}
	return l
}

// readContents reads the files that a location names. They may be links, as those of a system often are.
func readContents(l etcd.Location) (contents, error) {
	all := contents{}
	for _, kind := range slices.Sorted(maps.Keys(namesIn(&l))) {
		name := *namesIn(&l)[kind]
		if name == "" {
			continue
		}
		text, err := private.ReadLinked(name, join.MaxBundle)
		if err == nil && len(text) == 0 {
			err = fmt.Errorf("%s is empty", name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s of the store: %w", kind, err)
		}
		all[kind] = text
	}
	return all, nil
}

// fileName returns the name of the copy of a file. It depends on the content, so that a new copy does not replace one
// that is in use.
func (c contents) fileName(kind string) string {
	sum := sha256.Sum256(c[kind])
	return storePrefix + kind + "-" + hex.EncodeToString(sum[:8])
}

const (
	storePrefix = "store-"

	bundleVersion = 1
)

// bundle is what a machine that joins needs for the store. The files in its URL are named by their kinds.
type bundle struct {
	Version int      `json:"version"`
	Store   string   `json:"store"`
	Files   contents `json:"files,omitempty"`
}

// encodeBundle returns the text of a bundle.
func encodeBundle(l etcd.Location, files contents) ([]byte, error) {
	l = renamed(l, func(kind string) string { return kind })
	text, err := json.Marshal(bundle{Version: bundleVersion, Store: l.String(), Files: files})
	if err != nil {
		return nil, err
	}
	if len(text) > join.MaxBundle {
		return nil, fmt.Errorf("the certificates, key and password of the store are too large to give them to other "+
			"machines: %d bytes in base64, at most %d are allowed; name a ca file that has fewer certificates",
			len(text), join.MaxBundle)
	}
	return text, nil
}

// parseBundle reads a bundle. The errors have nothing of the files.
func parseBundle(text []byte) (etcd.Location, contents, error) {
	fail := func(err error) (etcd.Location, contents, error) {
		return etcd.Location{}, nil, fmt.Errorf("the node has sent a store that cannot be used: %w", err)
	}
	if len(text) > join.MaxBundle {
		return fail(fmt.Errorf("%d bytes, at most %d are allowed", len(text), join.MaxBundle))
	}
	var b bundle
	if err := decodeStrict(text, bundleVersion, &b); err != nil {
		return fail(err)
	}
	l, err := etcd.ParseLocation(b.Store)
	if err != nil {
		return fail(fmt.Errorf("its URL: %w", err))
	}
	names := namesIn(&l)
	for _, kind := range slices.Sorted(maps.Keys(names)) {
		switch name := *names[kind]; {
		case name == "" && b.Files[kind] != nil:
			return fail(fmt.Errorf("a file %s that its URL does not name", kind))
		case name != "" && name != kind:
			return fail(fmt.Errorf("its URL names the file %.100q; expected %s", name, kind))
		case name != "" && len(b.Files[kind]) == 0:
			return fail(fmt.Errorf("the file %s is missing or empty", kind))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(b.Files)) {
		if names[kind] == nil {
			return fail(fmt.Errorf("a file %.100q; expected ca, cert, key or password", kind))
		}
	}
	return l, b.Files, nil
}

// errNewer is returned for what a newer version of Coppice has written.
var errNewer = errors.New("it was written by a newer version of Coppice; use that version here, too")

// decodeStrict reads one JSON object of a version, without fields that are unknown. The error does not quote the
// text, which has secrets.
func decodeStrict(text []byte, version int, to any) error {
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return errors.New("expected an object in JSON")
	}
	switch {
	case head.Version == nil || *head.Version < 1:
		return errors.New("its version is missing")
	case *head.Version > version:
		return fmt.Errorf("version %d, expected %d: %w", *head.Version, version, errNewer)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
			return fmt.Errorf("the field %.100q has a value of another kind", wrong.Field)
		}
		return errors.New("unknown fields, or values that are no base64")
	}
	return nil
}
