package llm

import (
	"fmt"
	"log/slog"
	"strings"
)

// Secret is a text that never shows itself, however it is printed, logged or
// encoded. The zero value is empty.
type Secret struct{ text *string } // fmt does not follow pointers in unexported fields

// NewSecret keeps a text.
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

// hidden is shown instead.
const hidden = "[secret]"

func (s Secret) String() string               { return hidden }
func (s Secret) Format(f fmt.State, _ rune)   { fmt.Fprint(f, hidden) }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// hide removes the secret from the text of a server: servers repeat keys that they refuse.
func (s Secret) hide(text string) string {
	if s.text == nil {
		return text
	}
	return strings.ReplaceAll(text, *s.text, hidden)
}
