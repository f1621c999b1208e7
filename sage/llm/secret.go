package llm

import (
	"fmt"
	"log/slog"
	"strings"
)

// Secret is a text that is never shown, whether it is printed, logged or encoded. The zero value
// is empty.
type Secret struct{ text *string } // fmt does not follow pointers in unexported fields

// NewSecret returns a secret with a text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

func (s Secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// redacted is shown in place of a secret.
const redacted = "[secret]"

func (s Secret) String() string               { return redacted }
func (s Secret) Format(f fmt.State, _ rune)   { fmt.Fprint(f, redacted) }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// redact removes the secret from a text of a server. Some servers repeat a key that they reject.
func (s Secret) redact(text string) string {
	if s.text == nil {
		return text
	}
	return strings.ReplaceAll(text, *s.text, redacted)
}
