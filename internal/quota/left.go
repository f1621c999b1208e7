package quota

import (
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/agentcli/limits"
)

// left has the limits of an account, and how much of each is used, as far as that is known.
type left struct {
	windows []agentcli.Window
	told    time.Time // when a window was told last
	heard   time.Time // the last sign of the account, of any kind
	// asking is closed when the question that is under way is answered; nil if there is none.
	asking chan struct{}
	mute   time.Time // when a question may be asked again, after one that was not answered
}

// Bounds of the windows of an account that are kept.
const (
	maxWindows    = 20
	maxWindowName = 100 // bytes
)

// leftOf returns the limits of an account, as far as they are known. Needs mu.
func (m *Manager) leftOf(name string) *left {
	l := m.left[name]
	if l == nil {
		l = &left{}
		m.left[name] = l
	}
	return l
}

// isAsking reports whether a question about an account is under way.
func (m *Manager) isAsking(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.left[name]
	return l != nil && l.asking != nil
}

// heard takes note of a sign of an account: a run has ended, or the model has answered. Needs mu.
func (m *Manager) heard(name string, now time.Time) *left {
	l := m.leftOf(name)
	l.heard = now
	return l
}

// tell takes note of a window, in place of what was known of it.
func (l *left) tell(w agentcli.Window, now time.Time) {
	if w.Used < 0 || len(w.Name) > maxWindowName {
		return
	}
	i := slices.IndexFunc(l.windows, func(o agentcli.Window) bool { return o.Name == w.Name })
	switch {
	case i >= 0:
		l.windows[i] = w
	case len(l.windows) < maxWindows:
		l.windows = append(l.windows, w)
	default:
		return
	}
	l.told = now
}

// used returns the windows whose state is known: those that have not been reset since.
func (l *left) used(now time.Time) []Window {
	all := []Window{}
	if l != nil {
		for _, w := range l.windows {
			if w.Resets.After(now) {
				all = append(all, Window{Name: w.Name, Used: w.Used, Reset: w.Resets})
			}
		}
	}
	slices.SortFunc(all, func(a, b Window) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// clockSkew is the time by which a limit may seem to reset later than its window ends.
const clockSkew = time.Hour

// usedUp returns the limit that keeps an account from serving for longest. Those of a model count if uses reports that
// all agents use it. A reset that is later than a limit can last is not believed. An account that has money left
// serves beyond its limits.
func usedUp(a limits.Answer, now time.Time, uses func(model string) bool) (longest agentcli.Window, ok bool) {
	if a.Extra {
		return longest, false
	}
	for _, w := range a.Windows {
		lasts := 7 * 24 * time.Hour
		if w.Name == limits.FiveHour {
			lasts = 5 * time.Hour
		}
		model, ofModel := strings.CutPrefix(w.Name, limits.ModelPrefix)
		known := w.Name == limits.FiveHour || w.Name == limits.SevenDay || ofModel
		if !known || w.Used < 1 || !w.Resets.After(now) || w.Resets.After(now.Add(lasts+clockSkew)) ||
			w.Resets.Before(longest.Resets) || ofModel && !uses(model) {
			continue
		}
		longest, ok = w, true
	}
	return longest, ok
}

// onlyUses reports whether all agents that may use an account are known to use models of a family, such as opus. What
// chooses a model in another place than the command is not looked at.
func (f Fleet) onlyUses(account, family string) bool {
	found := false
	for path, a := range f.Agents {
		if !slices.Contains(f.accounts(path), account) {
			continue
		}
		model := agentcli.Model(agentcli.Claude, a.CallCommand(), nil)
		words := strings.FieldsFunc(strings.ToLower(model), func(r rune) bool { return r < 'a' || r > 'z' })
		if found = true; !slices.Contains(words, family) {
			return false
		}
	}
	return found
}

// WindowText names a limit for people.
func WindowText(name string) string {
	switch name {
	case limits.FiveHour:
		return "5 hours"
	case limits.SevenDay:
		return "7 days"
	}
	if model, ok := strings.CutPrefix(name, limits.ModelPrefix); ok {
		return "7 days of " + model
	}
	return strings.ReplaceAll(name, "_", " ")
}
