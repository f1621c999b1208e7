package setting

import (
	"strings"

	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/suggest"
	"github.com/coppice-dev/coppice/supervisor"
)

// Restart returns the read function of a restart policy.
func Restart[T any](field func(*T) *supervisor.Restart) func(*toml.Reader, *toml.Value, *T) {
	return toml.Word(supervisor.ParseRestart, field, restartMeant)
}

// restartMeant returns the hint for a restart policy in the terms of Docker, supervisord or
// systemd, or for a misspelled one of OTP; otherwise "".
func restartMeant(text string) string {
	switch strings.ReplaceAll(strings.ToLower(text), "_", "-") {
	case "unless-stopped":
		return `did you mean "always"? it does not restart an agent that was stopped manually`
	case "no", "false", "none":
		return `did you mean "never"?`
	case "yes", "true":
		return `did you mean "always"?`
	case "unexpected", "on-abnormal", "on-abort", "on-error":
		return `did you mean "on-failure"?`
	}
	if suggest.Nearest(text, []string{"always", "on-failure", "never"}) != "" {
		return ""
	}
	switch suggest.Nearest(text, []string{"permanent", "transient", "temporary"}) {
	case "permanent":
		return `did you mean "always"?`
	case "transient":
		return `did you mean "on-failure"?`
	case "temporary":
		return `did you mean "never"?`
	}
	return ""
}

// OtherSpellings returns the other spellings of a word that the reader accepts.
func OtherSpellings(word string) []string {
	switch word {
	case "one_for_one":
		return []string{"OneForOne"}
	case "one_for_all":
		return []string{"OneForAll"}
	case "rest_for_one":
		return []string{"RestForOne"}
	case "always":
		return []string{"permanent", "Permanent"}
	case "on-failure":
		return []string{"transient", "Transient"}
	case "never":
		return []string{"temporary", "Temporary"}
	case "give_up":
		return []string{"give-up"}
	}
	return nil
}
