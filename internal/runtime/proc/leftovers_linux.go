package proc

import (
	"fmt"
	"slices"
)

// Leftovers lists what still runs of an agent whose leader has ended: its process group, its session,
// and the processes of kin that still run, each with its descendants. It reads the list of all
// processes once.
func Leftovers(leader Identity, kin []Identity) ([]Identity, error) {
	pids, err := PIDs()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	return leftoversAmong(pids, leader, kin)
}

// leftoversAmong is Leftovers for a known set of candidates.
func leftoversAmong(pids []int, leader Identity, kin []Identity) ([]Identity, error) {
	boot, err := bootID()
	if err != nil {
		return nil, fmt.Errorf("listing what is left of process %d: %w", leader.PID, err)
	}
	stats := readStats(pids)
	// The leader's pid is not reused while its group or session has a member. If it was reused,
	// no process in a group or session of that number belongs to the leader.
	st, taken := stats[leader.PID]
	ours := boot == leader.Boot && (!taken || st.start == leader.Start)
	belongs := func(pid int) bool {
		for pid, st := range ancestry(pid, stats) {
			if ours && (st.group == leader.PID || st.session == leader.PID) ||
				slices.Contains(kin, Identity{PID: pid, Start: st.start, Boot: boot}) {
				return true
			}
		}
		return false
	}
	var rest []Identity
	for pid, st := range stats {
		if pid != leader.PID && (!st.ended() || threads(pid)) && belongs(pid) {
			rest = append(rest, Identity{PID: pid, Start: st.start, Boot: boot})
		}
	}
	return rest, nil
}

// rest lists what still runs of a process whose leader is a zombie.
func (p *Process) rest() ([]Identity, error) {
	p.mu.Lock()
	kin := slices.Clone(p.escaped)
	p.mu.Unlock()
	if p.reaper != nil {
		return p.restOfOrphans(kin)
	}
	leader, err := Identify(p.pid)
	if err != nil {
		return nil, err
	}
	return Leftovers(leader, kin)
}

// restOfOrphans is rest in a program that collects orphans: all that is left is an orphan or below
// one, so other processes are not searched. What one of these leaves behind that ends meanwhile is
// an orphan only then, so the search is repeated.
func (p *Process) restOfOrphans(kin []Identity) ([]Identity, error) {
	for ended := (endings{}); ; {
		orphans, err := p.reaper.orphans()
		if err != nil || len(orphans) == 0 {
			return nil, err
		}
		leader, err := Identify(p.pid)
		if err != nil {
			return nil, err
		}
		var all []Identity
		for _, o := range orphans {
			below, err := Descendants(o.id.PID)
			if err != nil {
				return nil, err
			}
			all = append(append(all, o.id), below...)
		}
		pids := []int{p.pid}
		for _, id := range all {
			pids = append(pids, id.PID)
		}
		left, err := leftoversAmong(pids, leader, kin)
		again := false
		for _, id := range all {
			again = Observe(id) == Dead && ended.add(id.PID) || again
		}
		if err != nil || len(left) > 0 || !again {
			return left, err
		}
	}
}
