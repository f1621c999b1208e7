package task

import "fmt"

// incarnations knows which incarnation of each agent runs, and how the last one has ended.
type incarnations struct {
	running map[string]Life // by agent
	ended   map[string]end  // by agent
}

// end is the end of an incarnation.
type end struct {
	life Life
	Exit
}

// end takes note of the end of an incarnation, and reports whether it was the current one.
func (i *incarnations) end(path string, incarnation uint64, exit Exit) bool {
	life := i.running[path]
	if life.Incarnation != incarnation {
		return false
	}
	i.ended[path] = end{life, exit}
	delete(i.running, path)
	return true
}

// check returns an ErrStale if the actor is an incarnation other than the current one.
func (i *incarnations) check(actor Actor) error {
	alive := actor.Incarnation != 0 && i.running[actor.Path].Incarnation == actor.Incarnation
	if !actor.Person() && !alive {
		return fmt.Errorf("%w: incarnation %d of %s", ErrStale, actor.Incarnation, actor.Path)
	}
	return nil
}

// orphaned reports whether a claim is that of an incarnation that does not run.
func (i *incarnations) orphaned(claim *Holder) bool {
	return claim.Incarnation != 0 && i.running[claim.By] != Life{claim.Incarnation, claim.Life}
}

// exit returns how the incarnation of a claim has ended, as far as that is known.
func (i *incarnations) exit(claim *Holder) Exit {
	if e := i.ended[claim.By]; e.life == (Life{claim.Incarnation, claim.Life}) {
		return e.Exit
	}
	return Exit{}
}
