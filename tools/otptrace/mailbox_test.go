package main

import (
	"strings"
	"testing"
)

// A supervisor is busy while its group restarts, even if the only process that was listed as running
// has been replaced by one that runs before its state is looked at.
func TestStaleListIsBusy(t *testing.T) {
	scripts, err := readScripts(strings.NewReader("sup one_for_all 5 3600 never\n" +
		"child a permanent 100 false worker ok obey\nchild b transient 100 false worker ok obey\nstart\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := &session{wake: make(chan struct{}, 1), attempts: map[string]int{}, last: map[string]*child{}}
	defer w.end()
	for _, l := range scripts[0] {
		if err := w.command(l); err != nil {
			t.Fatal(err)
		}
	}
	s := w.cur
	seen := w.count()
	infos, err := s.handle.Children()
	if err != nil {
		t.Fatal(err)
	}
	if a := s.activityOf(infos, seen); a != idle {
		t.Errorf("after the start its activity is %d, expected %d", a, idle)
	}
	if err := w.exit("a", "crash"); err != nil {
		t.Fatal(err)
	}
	if err := w.waitQuiet(); err != nil {
		t.Fatal(err)
	}
	if a := s.activityOf(infos, seen); a != busy {
		t.Errorf("according to a stale list its activity is %d, expected %d", a, busy)
	}
	if a, err := s.activity(); a != idle || err != nil {
		t.Errorf("after the restart its activity is %d, %v, expected %d", a, err, idle)
	}
}
