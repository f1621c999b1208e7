package spec

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Print is the fingerprint of what an incarnation was started with, field by
// field, so that what has changed since has a name. It is of what is declared
// alone: what is inherited from the daemon is not in it.
type Print struct {
	Sum   string `json:"sum"` // over all parts, the ones that are not known included
	Parts []Part `json:"parts,omitempty"`
}

// Part is the print of one field.
type Part struct {
	Field string `json:"field"` // as in command, env.MODEL, limits.memory, files./etc/motd
	// Hash is the beginning of a SHA-256 in hex; "" if it is not known, which
	// is a difference to nothing.
	Hash string `json:"hash"`
}

// Unread is what the content of a file is taken for that nobody has read.
const Unread = ""

// Print is the print of the agent as it is declared. hash returns that of the
// content of one of its Watched files, or Unread.
func (a *Agent) Print(hash func(path string) string) Print {
	var p Print
	add := func(field string, values ...string) {
		p.Parts = append(p.Parts, Part{field, digest(values)[:16]})
	}
	add("command", a.Command...)
	add("dir", a.Dir)
	add("stdin", a.Stdin)
	add("runtime", a.Runtime.String())
	add("terminal", strconv.FormatBool(a.Terminal))
	add("limits.memory", strconv.FormatInt(a.Limits.Memory, 10))
	add("limits.cpu", strconv.FormatFloat(a.Limits.CPU, 'g', -1, 64))
	add("limits.open_files", strconv.FormatUint(a.Limits.OpenFiles, 10))
	add("limits.processes", strconv.FormatUint(a.Limits.Processes, 10))
	// These are not there in the prints of versions that did not know them.
	if a.User != "" {
		add("user", a.User, a.Group)
	}
	if a.NoNewPrivileges {
		add("no_new_privileges", "true")
	}
	add("watchdog", strconv.FormatBool(a.Notify), a.Watchdog.String()) // in the environment, too
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		add("env."+name, a.Env[name])
	}
	if a.Revision != "" {
		add("program", a.Revision)
	}
	if len(a.EnvFiles) > 0 {
		add("env_file", a.EnvFiles...)
	}
	for _, path := range a.Watched() {
		p.Parts = append(p.Parts, Part{filesField + path, hash(path)})
	}
	p.sum()
	return p
}

const filesField = "files."

func (p *Print) sum() {
	all := make([]string, 0, 2*len(p.Parts))
	for _, part := range p.Parts {
		all = append(all, part.Field, part.Hash)
	}
	p.Sum = digest(all)
}

// Unread reports whether the content of a file is missing.
func (p Print) Unread() bool {
	return slices.ContainsFunc(p.Parts, func(part Part) bool {
		return part.Hash == Unread && strings.HasPrefix(part.Field, filesField)
	})
}

// Read is the print with what hash knows of the files whose content is missing.
func (p Print) Read(hash func(path string) string) Print {
	p.Parts = slices.Clone(p.Parts)
	for i, part := range p.Parts {
		if path, is := strings.CutPrefix(part.Field, filesField); is && part.Hash == Unread {
			p.Parts[i].Hash = hash(path)
		}
	}
	p.sum()
	return p
}

// digest is the SHA-256 of a list, in hex. Lengths go in front, so that no two
// lists run together to the same bytes.
func digest(list []string) string {
	var b []byte
	for _, s := range list {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Known reports whether there is a print at all. Nothing differs from what is not known.
func (p Print) Known() bool { return len(p.Parts) > 0 }

// Differs are the fields that differ from an earlier print, as far as both are known.
func (p Print) Differs(earlier Print) []string {
	if p.Sum == earlier.Sum || !p.Known() || !earlier.Known() {
		return nil
	}
	before := make(map[string]string, len(earlier.Parts))
	for _, part := range earlier.Parts {
		before[part.Field] = part.Hash
	}
	var fields []string
	for _, part := range p.Parts {
		was, ok := before[part.Field]
		if !ok || was != part.Hash && was != Unread && part.Hash != Unread {
			fields = append(fields, part.Field)
		}
		delete(before, part.Field)
	}
	return append(fields, slices.Sorted(maps.Keys(before))...)
}
