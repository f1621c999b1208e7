package question

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-dev/coppice/internal/store/memory"
)

// Each matter has one question for as long as it lasts, whatever happens to its answer.
func TestMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := OpenService(t.Context(), Options{Store: memory.New(), IsAgent: func(string) bool { return false }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		later, failure := errors.New("later"), error(nil)
		var carried []string
		m := Matters{
			Lasting: map[string]Matter{}, Logger: slog.Default(),
			About: func(sender string) bool { return strings.HasPrefix(sender, "m/") },
			Answer: func(_ context.Context, sender, answer string) error {
				carried = append(carried, sender+" "+answer)
				return failure
			},
		}
		look := func(when string, lasts bool, expected ...string) {
			t.Helper()
			time.Sleep(time.Second)
			if got := m.Ask(t.Context(), s, later); got != lasts {
				t.Errorf("%s: it lasts: %v", when, got)
			}
			var got []string
			for _, q := range s.List("", true) {
				got = append(got, fmt.Sprintf("%s %s%s", q.ID, q.State, q.Answer))
			}
			if !slices.Equal(got, expected) {
				t.Errorf("%s: %q, expected %q", when, got, expected)
			}
		}
		matter := Matter{Text: "go on?", Options: []string{"yes", "no"}, Since: time.Now()}
		if _, _, err := s.Ask(t.Context(), Draft{From: "other", Text: "?"}); err != nil {
			t.Fatal(err)
		}
		look("nothing", false, "q-1 open")
		m.Lasting["m/a"] = matter
		look("it lasts", true, "q-1 open", "q-2 open")
		look("it lasts", true, "q-1 open", "q-2 open")
		m.Lasting["m/a"] = Matter{Unsure: true}
		look("it may last", true, "q-1 open", "q-2 open")
		delete(m.Lasting, "m/a")
		look("it is over", false, "q-1 open", "q-2 withdrawn")
		matter.Since = time.Now()
		m.Lasting["m/a"] = matter
		look("again", true, "q-1 open", "q-2 withdrawn", "q-3 open")
		if _, err := s.Answer(t.Context(), "q-3", "no", "ann"); err != nil {
			t.Fatal(err)
		}
		failure = later
		look("not carried out", true, "q-1 open", "q-2 withdrawn", "q-3 answeredno")
		failure = nil
		look("carried out", true, "q-1 open", "q-2 withdrawn", "q-3 answeredno")
		look("it lasts", true, "q-1 open", "q-2 withdrawn", "q-3 answeredno")
		if !slices.Equal(carried, []string{"m/a no", "m/a no"}) {
			t.Errorf("%q", carried)
		}
		matter.Since = time.Time{}
		m.Lasting["m/a"] = matter
		look("the answer has ended nothing", true, "q-1 open", "q-2 withdrawn", "q-3 answeredno", "q-4 open")
	})
}
