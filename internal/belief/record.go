package belief

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store"
	"github.com/coppice-dev/coppice/internal/value"
)

// Prefixes of keys in the store.
const (
	prefix       = "beliefs"
	asidePrefix  = "beliefs-aside"   // unusable records that a new value has replaced
	stagedPrefix = "beliefs-staged"  // values of an import that needs many steps
	importPrefix = "beliefs-imports" // marks such an import as committed, under importName
	importName   = "_"
)

// maxInMemory bounds the values that are kept in memory, in bytes. Larger ones are read on demand,
// so many agents cannot exhaust the memory of the daemon.
const maxInMemory = 4 << 10

// key returns the key of a belief's record. Names of nodes and beliefs contain no slash, so no two
// beliefs have the same key. They are not escaped: keys allow all characters of names, and escaping
// could make a long path too long.
func key(prefix, path, name string) string { return prefix + "/" + path + "/" + name }

// parseKey is the inverse of key. ok is false for keys that key never returns.
func parseKey(prefix, key string) (path, name string, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix+"/")
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 {
		return "", "", false
	}
	path, name = rest[:i], rest[i+1:]
	return path, name, CheckPath(path) == "" && spec.CheckBeliefName(name) == ""
}

// CheckPath returns what is wrong with the path of an agent, or "".
func CheckPath(path string) string {
	if len(path) > maxPath {
		return fmt.Sprintf("the path %s has %d bytes, expected at most %d", spec.Quote(path), len(path), maxPath)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if wrong := spec.CheckName(segment); wrong != "" {
			return wrong + " (in the path " + spec.Quote(path) + ")"
		}
	}
	return ""
}

// maxPath leaves room for the rest of the key. The longest path of a tree has 584 bytes.
const maxPath = store.MaxKey - len(importPrefix) - spec.MaxBeliefName - 2

// header is a record without its value.
type header struct {
	Incarnation uint64    `json:"incarnation"` // the writer; 0 for a person
	Life        string    `json:"life,omitempty"`
	Transient   bool      `json:"transient,omitempty"` // valid for that life only
	Time        time.Time `json:"time"`
}

// entry describes a record in memory.
type entry struct {
	header
	rev    store.Rev
	size   int         // bytes of the value; of the record if it is damaged
	typ    value.Type  // the narrowest type
	value  value.Value // empty if it is too large to be kept in memory
	damage string      // why the record cannot be read
}

// records holds the records of one agent under one prefix.
type records struct {
	prefix, path string
	entries      map[string]*entry // by name
	bytes        int               // of names and values
}

func newRecords(prefix, path string) records {
	return records{prefix: prefix, path: path, entries: make(map[string]*entry)}
}

func (r *records) key(name string) string { return key(r.prefix, r.path, name) }

// put sets an entry, or removes it if e is nil.
func (r *records) put(name string, e *entry) {
	if old := r.entries[name]; old != nil {
		r.bytes -= len(name) + old.size
		delete(r.entries, name)
	}
	if e != nil {
		r.bytes += len(name) + e.size
		r.entries[name] = e
	}
}

// names returns the names, sorted.
func (r *records) names() []string { return slices.Sorted(maps.Keys(r.entries)) }

// encode returns the record for a value.
func (h header) encode(v value.Value) []byte {
	b := make([]byte, 0, len(v)+160)
	b = append(b, `{"incarnation":`...)
	b = strconv.AppendUint(b, h.Incarnation, 10)
	if h.Life != "" {
		b = append(b, `,"life":`...)
		b = strconv.AppendQuoteToASCII(b, h.Life) // of letters and digits
	}
	if h.Transient {
		b = append(b, `,"transient":true`...)
	}
	b = append(b, `,"time":"`...)
	b = h.Time.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","value":`...)
	b = append(b, v...)
	return append(b, '}')
}

// decode decodes a record. If it cannot be read, the entry has the damage set.
func decode(r store.Record) *entry {
	h, v, err := parseRecord(r.Value)
	if err != nil {
		return &entry{rev: r.Rev, size: len(r.Value), damage: err.Error()}
	}
	return newEntry(h, v, r.Rev)
}

func newEntry(h header, v value.Value, rev store.Rev) *entry {
	e := &entry{header: h, rev: rev, size: len(v), typ: value.Of(v)}
	if len(v) <= maxInMemory {
		e.value = v
	}
	return e
}

func parseRecord(data []byte) (header, value.Value, error) {
	var r struct {
		header
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return header{}, "", err
	}
	if len(bytes.TrimSpace(r.Value)) == 0 {
		return header{}, "", fmt.Errorf("it has no value")
	}
	v, err := value.Parse(r.Value)
	return r.header, v, err
}
