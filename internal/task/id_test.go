package task

import (
	"errors"
	"slices"
	"testing"
)

// Ids are unique, and consecutive ones look different.
func TestEnding(t *testing.T) {
	const n = 19683 + 60_000 // all of three letters, and some of four
	seen := make(map[string]bool, n)
	for i := range uint64(n) {
		id := idSuffix(i)
		if want := 3; i < 19683 && len(id) != want || i >= 19683 && len(id) != 4 {
			t.Fatalf("%d: %s", i, id)
		}
		if seen[id] {
			t.Fatalf("%d: %s comes twice", i, id)
		}
		seen[id] = true
	}
	for i := range uint64(1000) {
		if a, b := idSuffix(i), idSuffix(i+1); a[0] == b[0] && a[1] == b[1] {
			t.Errorf("%s, then %s", a, b)
		}
	}
	for name, want := range map[string]string{
		"web": "web", "My App": "my-app", "": "task", "日本": "task", "a-very-long-project": "a-very-long", "x_y": "x-y",
	} {
		if got := idPrefix(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// An id that is taken, as by an imported task, is not given. The prefix of those that are there may be left out.
func TestIDs(t *testing.T) {
	i := ids{prefix: "web"}
	first, _ := (&ids{prefix: "web"}).next(func(string) bool { return false })
	id, number := i.next(func(id string) bool { return id == first })
	if id == first || number != 2 || id != "web-"+idSuffix(1) {
		t.Errorf("%s, %d after %s", id, number, first)
	}
	there := []string{"web-a", "other-b", "c"}
	if all, err := i.among([]string{"a", "other-b", "c"}, there); err != nil || !slices.Equal(all, there) {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := i.among([]string{"a", "b"}, there); !errors.Is(err, ErrInvalid) {
		t.Errorf("%v, %v", all, err)
	}
}
