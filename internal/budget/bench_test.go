package budget

import (
	"fmt"
	"testing"

	"github.com/coppice-dev/coppice/internal/cost"
	"github.com/coppice-dev/coppice/internal/spec"
)

// BenchmarkAgents measures what the start of an agent and a report of its use cost among 1,000 agents with 10 budgets.
func BenchmarkAgents(b *testing.B) {
	const agents = 1000
	s := newState()
	budgets := []spec.Budget{{Name: "all", Per: spec.PerDay, Tokens: 1e12}}
	for i := range 9 {
		budgets = append(budgets, spec.Budget{
			Name: fmt.Sprint("b", i), Of: []string{fmt.Sprintf("group-%d/*", i)}, Per: spec.PerDay, Tokens: 1e12,
		})
	}
	s.declare(budgets)
	s.begin(noon)
	for i := range agents {
		path := fmt.Sprintf("t/group-%d/agent-%d", i%10, i)
		s.count(path, map[string]cost.Sum{"main": used(10)})
		s.put(&run{path: path, began: noon, used: used(5), stop: func(error) bool { return true }})
	}
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			s.refuses("t/group-3/agent-3", "main", noon)
		}
	})
	b.Run("report", func(b *testing.B) {
		for b.Loop() {
			s.decide(noon)
		}
	})
}
