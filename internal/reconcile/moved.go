package reconcile

import "path"

// leaver is something on its way out.
type leaver struct {
	path    string
	retired bool // which may take its time
}

func (p *planner) leaves(at string, retired bool) {
	if p.leaving == nil {
		p.leaving = make(map[string]leaver)
	}
	p.leaving[path.Base(at)] = leaver{at, retired}
}

// hold finds out what has moved: it must not run twice, and a supervisor that is
// started would start it. That leaves to the patrol what is retired elsewhere.
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

// within reports whether something is in a supervisor that is ended itself.
func (p *planner) within(at string) bool {
	for above := path.Dir(at); above != "." && above != "/"; above = path.Dir(above) {
		if p.ending[above] {
			return true
		}
	}
	return false
}

// first is what has to be gone before something that is not wanted any more; ""
// if nothing has.
func (p *planner) first(at string) string {
	for _, other := range p.t.Before[at] {
		if p.observed[other] != nil {
			return other
		}
	}
	return ""
}
