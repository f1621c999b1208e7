package agentcli

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// A total of a session counts as its difference to the last one.
func TestBeyond(t *testing.T) {
	in := func(n int64) Usage { return Usage{Input: n} }
	for name, c := range map[string]struct{ last, reported, counts Models }{
		"a new session":               {nil, Models{"a": in(5)}, Models{"a": in(5)}},
		"nothing":                     {nil, nil, nil},
		"nothing was added":           {Models{"a": in(5)}, Models{"a": in(5)}, nil},
		"it goes on":                  {Models{"a": in(5)}, Models{"a": in(7)}, Models{"a": in(2)}},
		"with another model":          {Models{"a": in(5)}, Models{"a": in(7), "b": in(1)}, Models{"a": in(2), "b": in(1)}},
		"without a model":             {Models{"a": in(5), "b": in(3)}, Models{"b": in(9)}, Models{"b": in(6)}},
		"it has begun again":          {Models{"a": in(5)}, Models{"a": in(4)}, Models{"a": in(4)}},
		"it reports nothing":          {Models{"a": in(5)}, nil, nil},
		"a model has lost its name":   {Models{"a": in(5)}, Models{"": in(7)}, Models{"": in(2)}},
		"models have lost their name": {Models{"a": in(5), "b": in(1)}, Models{"": in(7)}, Models{"": in(1)}},
		"a model has got its name":    {Models{"": in(5)}, Models{"a": in(7)}, Models{"a": in(2)}},
		"models have got their names": {Models{"": in(5)}, Models{"a": in(3), "b": in(4)}, Models{"b": in(2)}},
		"each kind of tokens on its own": {
			Models{"a": {Input: 5, CacheRead: 9, CacheWrite: 2, Output: 3, Dollars: 1}},
			Models{"a": {Input: 6, CacheRead: 9, CacheWrite: 4, Output: 3, Dollars: 1.5}},
			Models{"a": {Input: 1, CacheWrite: 2, Dollars: 0.5}},
		},
		"input that is read from a cache now": {
			Models{"a": {Input: 5, Output: 5}}, Models{"a": {Input: 4, CacheRead: 20, Output: 9}},
			Models{"a": {CacheRead: 20, Output: 4}},
		},
	} {
		if got := Beyond(c.last, c.reported); !maps.Equal(got, c.counts) {
			t.Errorf("%s: %v, expected %v", name, got, c.counts)
		}
	}
}

// However a session is cut into runs, what counts is its last total, and the arguments stay as they are.
func TestBeyondOfManyRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"", "a", "b"})
		number := rapid.Int64Range(0, 1000)
		var total, last Models
		var sum int64
		for range rapid.IntRange(1, 5).Draw(t, "runs") {
			total = maps.Clone(total)
			total.add(names.Draw(t, "model"), Usage{number.Draw(t, "in"), number.Draw(t, "read"), number.Draw(t, "write"),
				number.Draw(t, "out"), 0})
			before, reported := maps.Clone(last), maps.Clone(total)
			sum += Beyond(last, total).Total().Tokens()
			if !maps.Equal(before, last) || !maps.Equal(reported, total) {
				t.Fatal("an argument has changed")
			}
			last = total
		}
		if sum != total.Total().Tokens() {
			t.Fatalf("%d count, the total is %d", sum, total.Total().Tokens())
		}
	})
}

// The total of a session is its last report if that includes earlier runs, else their sum.
func TestCount(t *testing.T) {
	n := int64(1)
	last, one := Models{"a": {Input: 5}}, Models{"a": {Input: 7}}
	for name, c := range map[string]struct {
		record      Record
		used, total Models
	}{
		"not known":                         {Record{}, nil, last},
		"of the run":                        {Record{Tokens: &n, Usage: one}, one, Models{"a": {Input: 12}}},
		"of the session":                    {Record{Tokens: &n, Usage: one, Cumulative: true}, Models{"a": {Input: 2}}, one},
		"of the session, which began again": {Record{Tokens: &n, Usage: Models{"a": {Input: 3}}, Cumulative: true}, Models{"a": {Input: 3}}, Models{"a": {Input: 3}}},
	} {
		if used, total := c.record.Count(last); !maps.Equal(used, c.used) || !maps.Equal(total, c.total) {
			t.Errorf("%s: %v of %v, expected %v of %v", name, used, total, c.used, c.total)
		}
	}
}
