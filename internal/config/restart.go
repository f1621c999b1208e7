package config

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/suggest"
)

// restartMeant is the hint for a restart policy in the words of others: Docker,
// supervisord, systemd, or a misspelled one of OTP. It is empty for other words.
func restartMeant(text string) string {
	switch strings.ReplaceAll(strings.ToLower(text), "_", "-") {
	case "unless-stopped":
		return didYouMean("always") + " an agent that is stopped by hand stays stopped"
	case "no", "false", "none":
		return didYouMean("never")
	case "yes", "true":
		return didYouMean("always")
	case "unexpected", "on-abnormal", "on-abort", "on-error":
		return didYouMean("on-failure")
	}
	if suggest.Nearest(text, []string{"always", "on-failure", "never"}) == "" {
		switch suggest.Nearest(text, []string{"permanent", "transient", "temporary"}) {
		case "permanent":
			return didYouMean("always")
		case "transient":
			return didYouMean("on-failure")
		case "temporary":
			return didYouMean("never")
		}
	}
	return ""
}
