package output

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-dev/coppice/internal/runtime/logfile"
)

// An agent that writes faster than its log is read does not keep the reader from coming to an end soon.
func TestStoredOfFastWriter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output.log")
	w := logfile.NewWriter(file)
	w.Begin(1)
	w.Append([]byte("first\n"))
	tail, err := logfile.Last(file, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	r := &logReader{q: Query{Lines: -1, Follow: true}, startedAt: time.Now()}
	s := &logSource{agent: &agentLog{path: "t/a"}, tail: tail}
	more := []byte(strings.Repeat("x", 100) + "\n")
	lines := 0
	for i, err := range r.stored(t.Context(), s) {
		if err != nil {
			t.Fatal(err)
		}
		l := i.line
		if l.Between != nil {
			continue
		}
		if lines++; lines == 1 && l.Line != "first" {
			t.Errorf("%q comes first", l.Line)
		}
		if lines > 200_000 { // some 10 ms take thousands
			t.Fatal("it goes on and on")
		}
		w.Append(more)
		w.Append(more)
	}
}
