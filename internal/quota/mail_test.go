package quota

import (
	"slices"
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/internal/agentcli"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/outcome"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/store/memory"
)

// People get one mail about an account that is used up, until it is open again; also over a restart of the daemon.
func TestTell(t *testing.T) {
	s := memory.New()
	box, err := mail.Open(t.Context(), mail.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, s)
	h.fleet.f.Quotas = []spec.Quota{{Name: "main", CLI: agentcli.Claude}}
	expect := func(subjects ...string) {
		t.Helper()
		h.Tell(t.Context(), box)
		h.Tell(t.Context(), box)
		var got []string
		for _, m := range box.List(mail.People, true) {
			subject, _, _ := strings.Cut(m.Subject, " until ")
			got = append(got, m.From+": "+subject)
		}
		if !slices.Equal(got, subjects) {
			t.Fatalf("mail: %q, expected %q", got, subjects)
		}
	}
	const used = "quota/main: main is used up"
	h.starts("t/a", "main")
	h.starts("t/b", "main")
	expect()
	h.limit("t/a", "")
	expect(used)
	h.limit("t/b", "")
	expect(used)
	if err := h.Resume("main"); err != nil {
		t.Fatal(err)
	}
	h.starts("t/a", "main")
	h.limit("t/a", "") // the one that goes first, again
	expect(used)
	if err := h.log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h = newHarness(t, s)
	h.fleet.f.Quotas = []spec.Quota{{Name: "main", CLI: agentcli.Claude}}
	expect(used)
	if err := h.Resume("main"); err != nil {
		t.Fatal(err)
	}
	h.starts("t/b", "main")
	h.Ended("t/b", agentcli.Record{Verdict: agentcli.Verdict{Kind: outcome.Completed}})
	expect(used)
	h.limit("t/b", "")
	expect(used, used)
	h.Ended("t/b", met(outcome.Billing, h.pools["main"].Reset)) // which is a question
	expect(used, used)
}
