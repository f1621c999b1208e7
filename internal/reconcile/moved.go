package reconcile

import "path"

// leaver is a node that is stopping.
type leaver struct {
	path    string
	retired bool // it stops when it has finished
}

func (p *planner) leaves(at string, retired bool) {
	if p.leaving == nil {
		p.leaving = make(map[string]leaver)
	}
	p.leaving[path.Base(at)] = leaver{at, retired}
}

// hold finds the nodes that have moved. A moved node must not run twice, so the supervisors
// above its new place, which would start it, wait; after a retired one only the node itself.
func (p *planner) hold(desired []Desired) {
	if len(p.leaving) == 0 {
		return
	}
	p.held = make(map[string]string)
	for i := range desired {
		at := desired[i].Path
		old, leaves := p.leaving[path.Base(at)]
		if !leaves || old.path == at || desired[i].Instance {
			continue
		}
		for above := at; above != "." && above != "/"; above = path.Dir(above) {
			p.held[above] = old.path
			if old.retired {
				break
			}
		}
	}
}

// within reports whether a node is below a supervisor that is stopped.
func (p *planner) within(at string) bool {
	for above := path.Dir(at); above != "." && above != "/"; above = path.Dir(above) {
		if p.ending[above] {
			return true
		}
	}
	return false
}

// first returns a node that must be gone before a removed one; "" if there is none.
func (p *planner) first(at string) string {
	for _, other := range p.t.Before[at] {
		if p.observed[other] != nil {
			return other
		}
	}
	return ""
}
