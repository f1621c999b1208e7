package gascity

import (
	"slices"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// override applies the overrides of a rig to the agents of its packs.
func (p *packs) override(rig *toml.Value, key string, agents []*toml.Value, remote bool) {
	all := rig.Field(key)
	if all == nil || !p.r.Want(all, toml.KindArray, "an array of tables") {
		return
	}
	array := &toml.Value{Kind: toml.KindArray, Elements: agents}
	s := toml.Named(p.schema.tables["[[agent]]"].section())
	s.PatchHeader, s.Keys = "[[rigs."+key+"]]", []string{"agent"}
	s.Identity = func(v *toml.Value) string { return toml.TextOf(v, "agent") }
	targets := toml.ByIdentity(array, s.Names)
	for _, o := range tablesOf(all) {
		if remote && targets[s.Identity(o)] == nil {
			continue // its target may be in a pack that was not read
		}
		p.r.PatchOne(o, targets, s)
	}
}

// dropPatches removes and reports patches of agents that may be in packs that were not read.
func (p *packs) dropPatches(document *toml.Value) {
	array := below(document, "patches", "agent")
	if array == nil || array.Kind != toml.KindArray {
		return
	}
	s := p.patches()[0]
	targets := toml.ByIdentity(document.Field("agent"), s.Names)
	array.Elements = slices.DeleteFunc(array.Elements, func(e *toml.Value) bool {
		lost := e.Kind == toml.KindTable && toml.TextOf(e, "name") != "" && targets[s.Identity(e)] == nil
		if lost {
			p.r.Notice(e.Field("name"), "no agent is called %s in what was read; it may be in one "+
				"of the packs that are not", spec.Quote(s.Identity(e)))
		}
		return lost
	})
}
