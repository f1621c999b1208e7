package gascity

import "testing"

func TestCityReference(t *testing.T) {
	for _, table := range tables() {
		seen := map[string]bool{}
		for _, k := range table.keys {
			if seen[k.Name] || k.Doc == "" || k.Type == "" {
				t.Errorf("%s: the row of %s is there twice, or not complete", table.header, k.Name)
			}
			seen[k.Name] = true
		}
	}
}
