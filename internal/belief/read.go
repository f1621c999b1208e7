package belief

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/value"
)

// Belief is a belief with its current value.
type Belief struct {
	_ struct{} `open:"true" doc:"A named value of an agent."`

	Name        string      `json:"name" doc:"Its name."`
	Type        string      `json:"type" enum:"any,bool,int,float,string,list,map" doc:"The declared type; any if there is none."`
	Value       value.Value `json:"value,omitempty" doc:"Any JSON. Missing if it is left out or cannot be read."`
	Size        int         `json:"size" minimum:"0" doc:"Size of the value in bytes."`
	Origin      Origin      `json:"origin" doc:"Origin of the value: kept (it was set), initial, zero (of its type), or leftover (set, but not declared in the file)."`
	Persistent  bool        `json:"persistent" doc:"It outlives the incarnation."`
	Declared    bool        `json:"declared" doc:"The file declares it."`
	Incarnation uint64      `json:"incarnation,omitempty" minimum:"1" doc:"The incarnation that set it; missing if a person did."`
	Time        time.Time   `json:"time,omitzero" doc:"When it was set."`
	Problem     string      `json:"problem,omitempty" doc:"Why the stored value is not used."`
	Aside       bool        `json:"aside,omitempty" doc:"An earlier record that could not be used is also stored; see /v1/beliefs/raw."`
}

// Origin is the source of a value.
type Origin string

// Origins.
const (
	Kept     Origin = "kept"     // it was set
	Initial  Origin = "initial"  // the initial value of the declaration
	Zero     Origin = "zero"     // the zero value of the type
	Leftover Origin = "leftover" // set, but no longer declared in the file
)

// Agent is an agent with declared or stored beliefs.
type Agent struct {
	_ struct{} `schema:"AgentBeliefs" open:"true" doc:"The beliefs of one agent."`

	Path        string   `json:"path" doc:"Path of the agent."`
	Known       bool     `json:"known" doc:"The agent is in the file."`
	Incarnation uint64   `json:"incarnation,omitempty" minimum:"1" doc:"The open incarnation; missing if there is none."`
	Count       int      `json:"count" minimum:"0" doc:"Number of stored records."`
	Bytes       int      `json:"bytes" minimum:"0" doc:"Bytes of their names and values."`
	Beliefs     []Belief `json:"beliefs" doc:"Its beliefs, sorted by name."`
}

// KeptOf returns the values that were set, by name.
func KeptOf(all []Belief) map[string]string {
	values := map[string]string{}
	for _, one := range all {
		if one.Origin == Kept {
			values[one.Name] = string(one.Value)
		}
	}
	return values
}

// Get returns beliefs of an agent with their values, as they were at one moment: the named ones in
// that order, or all of them, sorted. by is the caller, as in Apply; a caller that is not the open
// incarnation gets ErrStale. A person also sees leftovers.
func (b *Store) Get(ctx context.Context, path string, by uint64, names ...string) ([]Belief, error) {
	a := b.find(path)
	if a == nil {
		if by != Person {
			return nil, (&agent{path: path}).checkIncarnation(by)
		}
		return nil, fmt.Errorf("%w: there is no agent %s", ErrNotFound, spec.Quote(path))
	}
	list, complete, err := a.snapshot(by, names)
	if err != nil || complete {
		return list, err
	}
	// Large values have to be read from the store, without writes meanwhile.
	if err := a.lock(ctx); err != nil {
		return nil, err
	}
	defer a.unlock()
	if err := b.resolvePending(ctx, a); err != nil {
		return nil, err
	}
	if list, _, err = a.snapshot(by, names); err != nil {
		return nil, err
	}
	for i := range list {
		l := &list[i]
		if l.Value != "" || l.Problem != "" || l.Size == 0 {
			continue // or there is only a record that was set aside
		}
		if l.Value, err = b.readValue(ctx, a, l.Name); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// snapshot is Get without values that are not in memory. complete is false if there are any.
func (a *agent) snapshot(by uint64, names []string) (list []Belief, complete bool, err error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if err := a.checkIncarnation(by); err != nil {
		return nil, false, err
	}
	if len(names) == 0 {
		list = a.list(by == Person)
	}
	for _, name := range names {
		l, ok := a.belief(name)
		if !ok || l.Origin == Leftover && by != Person {
			return nil, false, a.errMissing(name)
		}
		list = append(list, l)
	}
	complete = !a.unknown
	for _, l := range list {
		complete = complete && (l.Value != "" || l.Size == 0)
	}
	return list, complete, nil
}

// list returns all beliefs of an agent, sorted by name. The caller holds mu.
func (a *agent) list(leftovers bool) []Belief {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a.inForce)), maps.Keys(a.stored.entries))
	if leftovers {
		names = slices.AppendSeq(names, maps.Keys(a.aside.entries))
	}
	slices.Sort(names)
	all := make([]Belief, 0, len(names))
	for _, name := range slices.Compact(names) {
		if l, ok := a.belief(name); ok && (leftovers || l.Origin != Leftover) {
			all = append(all, l)
		}
	}
	return all
}

// belief returns a belief with its current value, which is empty if it is not in memory. ok is
// false if there is no belief of that name. The caller holds mu.
func (a *agent) belief(name string) (l Belief, ok bool) {
	d, declared := a.inForce[name]
	e := a.stored.entries[name]
	if !declared {
		d.Persistent = true
	}
	l = Belief{
		Name: name, Type: d.Type.String(), Declared: declared, Persistent: d.Persistent,
		Aside: a.aside.entries[name] != nil,
	}
	if e != nil && e.damage == "" && a.isCurrent(e, d.Persistent) {
		if l.Problem = a.typeProblem(name, e); l.Problem == "" {
			l.Value, l.Size, l.Origin, l.Incarnation, l.Time = e.value, e.size, Kept, e.Incarnation, e.Time
			if !declared && a.inForce != nil {
				l.Origin = Leftover
			}
			return l, true
		}
	}
	if e != nil && e.damage != "" {
		l.Problem = "its record cannot be read: " + e.damage
	}
	if declared {
		l.Origin = Initial
		if d.Initial == "" {
			l.Origin = Zero
		}
		l.Value, l.Size = d.Start(), len(d.Start())
		return l, true
	}
	l.Origin = Leftover
	return l, l.Problem != "" || l.Aside
}

// Agents returns the agents at and below a path that have declared or stored beliefs; all of them
// if the path is empty. Values that are not in memory are left out.
func (b *Store) Agents(path string) []Agent {
	var list []Agent
	for _, a := range b.all(path) {
		a.mu.RLock()
		l := Agent{
			Path: a.path, Known: a.known, Incarnation: a.life.Incarnation,
			Count: len(a.stored.entries), Bytes: a.stored.bytes, Beliefs: a.list(true),
		}
		a.mu.RUnlock()
		if len(l.Beliefs) > 0 {
			list = append(list, l)
		}
	}
	return list
}

// Raw returns the stored record of a belief, and the one that was set aside; nil if there is none.
func (b *Store) Raw(ctx context.Context, path, name string) (record, aside []byte, err error) {
	a := b.find(path)
	if a == nil {
		return nil, nil, fmt.Errorf("%w: there is no agent %s", ErrNotFound, spec.Quote(path))
	}
	if wrong := spec.CheckBeliefName(name); wrong != "" {
		return nil, nil, fmt.Errorf("%w: %s", ErrRefused, wrong)
	}
	kept, _, err := b.read(ctx, a.stored.key(name))
	if err != nil {
		return nil, nil, err
	}
	old, _, err := b.read(ctx, a.aside.key(name))
	if err != nil {
		return nil, nil, err
	}
	if kept.Value == nil && old.Value == nil {
		a.mu.RLock()
		defer a.mu.RUnlock()
		return nil, nil, a.errMissing(name)
	}
	return kept.Value, old.Value, nil
}
