package eval

import (
	"fmt"
	"maps"
	"slices"
)

// beliefCode is the compiled declaration of a belief.
type beliefCode struct {
	name       string
	shape      *shape
	persistent bool
	value      *function // nil: the zero value of its type
}

// beliefInit sets the beliefs that a child or summon gives, by their index.
type beliefInit func(m *machine, fields []Value)

// initBeliefs sets the first value of each belief. A stored value comes first, then the one of the
// child or summon, then the one of the declaration, then the zero value.
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
		m.throwError(Runtime, fmt.Errorf("opening the beliefs of %s: %w", a.path, err))
	}
	a.beliefsOpen = true
	for i, b := range a.code.fields {
		text, found := values[b.name]
		if !b.persistent || !found {
			continue
		}
		v, err := b.shape.decode([]byte(text))
		if err != nil {
			m.throwError(Runtime, fmt.Errorf("belief %s of %s is stored as %.100s, which is not a value of its type "+
				"now (%w); declare its former type, or rename the belief", b.name, a.path, text, err))
		}
		a.fields[i] = v
	}
}

// setBelief changes a belief. A persistent one changes after its new value is stored.
func (a *agent) setBelief(m *machine, n int, v Value) {
	b := a.code.fields[n]
	if !a.beliefsOpen || !b.persistent {
		a.fields[n] = v
		return
	}
	a.saveBeliefs(m, map[string]string{b.name: string(encode(v))})
	a.fields[n] = v
}

// checkpoint stores all persistent beliefs in one step.
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

// saveBeliefs stores values. A write is finished even if the agent is asked to stop meanwhile; the
// agent then stops at its next wait or write.
func (a *agent) saveBeliefs(m *machine, values map[string]string) {
	m.checkStop()
	if err := a.in.o.Beliefs.SaveBeliefs(a.graceContext(m.ctx), a.identity(), values); err != nil {
		m.throwError(Runtime, fmt.Errorf("storing the beliefs %v: %w", slices.Sorted(maps.Keys(values)), err))
	}
}
