package setting

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/suggest"
)

// RestartMeant returns the hint for a restart policy in the words of others: Docker,
// supervisord, systemd, or a misspelled one of OTP. It is empty for other words.
func RestartMeant(text string) string {
	switch strings.ReplaceAll(strings.ToLower(text), "_", "-") {
	case "unless-stopped":
		return toml.DidYouMean("always") + " an agent that is stopped by hand stays stopped"
	case "no", "false", "none":
		return toml.DidYouMean("never")
	case "yes", "true":
		return toml.DidYouMean("always")
	case "unexpected", "on-abnormal", "on-abort", "on-error":
		return toml.DidYouMean("on-failure")
	}
	if suggest.Nearest(text, []string{"always", "on-failure", "never"}) == "" {
		switch suggest.Nearest(text, []string{"permanent", "transient", "temporary"}) {
		case "permanent":
			return toml.DidYouMean("always")
		case "transient":
			return toml.DidYouMean("on-failure")
		case "temporary":
			return toml.DidYouMean("never")
		}
	}
	return ""
}
