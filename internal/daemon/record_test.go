package daemon

import (
	"testing"

	"github.com/coppice-dev/coppice/supervisor"
)

// Records of versions before keep their meaning: an agent that has ended for good
// is not started because the words for that have changed.
func TestReasonOf(t *testing.T) {
	for reason := supervisor.NoReason; reason <= supervisor.ReasonRenewed; reason++ {
		if got := reasonOf(reason.String()); got != reason {
			t.Errorf("%q is read as %d, expected %d", reason, got, reason)
		}
	}
	for text, want := range map[string]supervisor.Reason{
		"permanent children are always restarted":          supervisor.ReasonPermanent,
		"transient children are restarted after a failure": supervisor.ReasonTransientFailed,
		"transient children stay down after a clean exit":  supervisor.ReasonTransientClean,
		"temporary children are never restarted":           supervisor.ReasonTemporary,
		"something else":                                   supervisor.NoReason,
	} {
		if got := reasonOf(text); got != want {
			t.Errorf("%q is read as %v, expected %v", text, got, want)
		}
	}
}
