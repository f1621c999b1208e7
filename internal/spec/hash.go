package spec

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unique"
)

// Hash covers everything that cannot change without a restart of the agent. Each field has
// its own hash, so changes can be named. It covers only the declaration, not the environment
// of the daemon. It omits settings that change in place: restart policy, backoff, limit,
// shutdown, readiness, liveness, nudges and the name of the command line. It also omits the Aidefile,
// which each run reads, and the Placement, which says where an agent runs and not how.
type Hash struct {
	Sum    string      `json:"sum"` // over all fields, including unknown ones
	Fields []FieldHash `json:"parts,omitempty"`
}

// FieldHash is the hash of one field.
type FieldHash struct {
	Field string `json:"field"` // such as command, env.MODEL, limits.memory, files./etc/motd
	// Hash is a prefix of a SHA-256 in hex; "" if unknown, which equals any hash.
	Hash string `json:"hash"`
}

// Unread is the hash of a file that has not been read yet.
const Unread = ""

// DeclaredHash returns the hash of an agent whose files have not been read.
func (a *Agent) DeclaredHash() Hash {
	return a.Hash(func(string) string { return Unread })
}

// Hash returns the hash of the declaration of the agent. content returns the hash of the
// content of a Watched file, or Unread.
func (a *Agent) Hash(content func(path string) string) Hash {
	h := Hash{Fields: make([]FieldHash, 0, declaredFields+len(a.Env))}
	add := func(field string, values ...string) {
		sum := digest(values)
		// Most agents have the same values in most fields, and then share one string.
		h.Fields = append(h.Fields, FieldHash{field, unique.Make(hex.EncodeToString(sum[:8])).Value()})
	}
	if a.Pipeline == nil { // whose workers ask for their settings before each attempt
		add("command", a.Command...)
	} else if a.Pipeline.Tasks != "" { // one may wait for a task at the moment
		add("pipeline.tasks", a.Pipeline.Tasks)
	}
	add("dir", a.portable(a.Dir))
	add("stdin", a.portable(a.Stdin))
	add("runtime", a.Runtime.String())
	add("terminal", strconv.FormatBool(a.Terminal))
	add("limits.memory", strconv.FormatInt(a.Limits.Memory, 10))
	add("limits.cpu", strconv.FormatFloat(a.Limits.CPU, 'g', -1, 64))
	add("limits.open_files", strconv.FormatUint(a.Limits.OpenFiles, 10))
	add("limits.processes", strconv.FormatUint(a.Limits.Processes, 10))
	// These are omitted if not set, for compatibility with versions that did not know them.
	if a.User != "" {
		add("user", a.User, a.Group)
	}
	if a.NoNewPrivileges {
		add("no_new_privileges", "true")
	}
	if a.ReadWritePaths != nil {
		add("read_write_paths", a.allPortable(a.ReadWritePaths)...)
		add("read_only_paths", a.allPortable(a.ReadOnlyPaths)...)
	}
	add("watchdog", strconv.FormatBool(a.Notify), a.Watchdog.String()) // both are in the environment
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		add("env."+name, a.Env[name])
	}
	if a.Revision != "" {
		add("program", a.Revision)
	}
	if len(a.EnvFiles) > 0 {
		add("env_file", a.allPortable(a.EnvFiles)...)
	}
	for _, path := range a.Watched() {
		h.Fields = append(h.Fields, FieldHash{filesField + a.portable(path), content(path)})
	}
	h.sum()
	return h
}

// declaredFields is the number of fields that every agent has.
const declaredFields = 10

const filesField = "files."

func (h *Hash) sum() {
	all := make([]string, 0, 2*len(h.Fields))
	for _, f := range h.Fields {
		all = append(all, f.Field, f.Hash)
	}
	sum := digest(all)
	h.Sum = hex.EncodeToString(sum[:])
}

// Incomplete reports whether the hash of a file is missing.
func (h Hash) Incomplete() bool {
	return slices.ContainsFunc(h.Fields, func(f FieldHash) bool {
		return f.Hash == Unread && strings.HasPrefix(f.Field, filesField)
	})
}

// Complete returns the hash of the agent with the missing hashes of files filled in from content.
func (h Hash) Complete(a *Agent, content func(path string) string) Hash {
	h.Fields = slices.Clone(h.Fields)
	for i, f := range h.Fields {
		if path, isFile := strings.CutPrefix(f.Field, filesField); isFile && f.Hash == Unread {
			h.Fields[i].Hash = content(a.located(path))
		}
	}
	h.sum()
	return h
}

// OnlyFiles reports whether all fields are contents of files.
func OnlyFiles(fields []string) bool {
	return !slices.ContainsFunc(fields, func(field string) bool { return !strings.HasPrefix(field, filesField) })
}

// digest returns the SHA-256 of a list. Each string is preceded by its length, so different
// lists never produce the same bytes.
func digest(list []string) [sha256.Size]byte {
	b := make([]byte, 0, 512)
	for _, s := range list {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return sha256.Sum256(b)
}

// Known reports whether there is a hash. An unknown hash equals any other.
func (h Hash) Known() bool { return len(h.Fields) > 0 }

// Changed returns the fields that are known in both hashes and differ, or are in only one.
func (h Hash) Changed(earlier Hash) []string {
	if h.Sum == earlier.Sum || !h.Known() || !earlier.Known() {
		return nil
	}
	before := make(map[string]string, len(earlier.Fields))
	for _, f := range earlier.Fields {
		before[f.Field] = f.Hash
	}
	var fields []string
	for _, f := range h.Fields {
		was, ok := before[f.Field]
		if !ok || was != f.Hash && was != Unread && f.Hash != Unread {
			fields = append(fields, f.Field)
		}
		delete(before, f.Field)
	}
	return append(fields, slices.Sorted(maps.Keys(before))...)
}
