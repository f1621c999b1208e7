package eval

import (
	"fmt"
	"maps"
	"slices"
)

// beliefCode is a belief as it is declared.
type beliefCode struct {
	name       string
	shape      *shape
	persistent bool
	value      *function // nil: the zero of its type
}

// beliefInit are the values that a child or summon gives to beliefs, by their index.
type beliefInit func(m *machine, fields []Value)

// load gives the beliefs their first values: what was kept, else what the child
// or summon says, else what the agent says, else zero.
func (a *agent) initBeliefs(m *machine, init beliefInit) {
	a.fields = make([]Value, len(a.code.fields))
	if init != nil {
		init(m, a.fields)
	}
	for i, b := range a.code.fields {
		if a.fields[i].ref != nil {
			continue
		}
		if b.value == nil {
			a.fields[i] = b.shape.zero(0)
			continue
		}
		_, a.fields[i] = m.invoke(b.value)
	}
	if len(a.code.persistent) == 0 {
		return
	}
	values, err := a.in.o.Beliefs.OpenBeliefs(a.lifetime, a.identity(), a.code.persistent)
	if err != nil {
		m.throwError(Runtime, fmt.Errorf("the beliefs of %s cannot be opened: %w", a.path, err))
	}
	a.beliefsOpen = true
	for i, b := range a.code.fields {
		text, found := values[b.name]
		if !b.persistent || !found {
			continue
		}
		v, err := b.shape.decode([]byte(text))
		if err != nil {
			m.throwError(Runtime, fmt.Errorf("belief %s of %s is kept as %.100s, which is no value of its type "+
				"now (%w); declare the type that it had, or give the belief another name", b.name, a.path, text, err))
		}
		a.fields[i] = v
	}
}

// save keeps a new value of a persistent belief, and lets the agent believe it
// once that is done.
func (a *agent) setBelief(m *machine, n int, v Value) {
	b := a.code.fields[n]
	if !a.beliefsOpen || !b.persistent {
		a.fields[n] = v
		return
	}
	a.saveBeliefs(m, map[string]string{b.name: string(encode(v))})
	a.fields[n] = v
}

// checkpoint keeps all persistent beliefs, in one step.
func (a *agent) checkpoint(m *machine) {
	if a == nil || !a.beliefsOpen {
		return
	}
	values := map[string]string{}
	for i, b := range a.code.fields {
		if b.persistent {
			values[b.name] = string(encode(a.fields[i]))
		}
	}
	a.saveBeliefs(m, values)
}

// write keeps values. It is finished although the agent is asked to stop, and
// the agent goes on to its next wait or write then.
func (a *agent) saveBeliefs(m *machine, values map[string]string) {
	m.checkStop()
	if err := a.in.o.Beliefs.SaveBeliefs(a.graceContext(m.ctx), a.identity(), values); err != nil {
		m.throwError(Runtime, fmt.Errorf("%v could not be kept: %w", slices.Sorted(maps.Keys(values)), err))
	}
}
