package setting

import (
	"errors"
	"fmt"
	"strings"
)

// Words returns the program and arguments of a command that is written as one text. Quotation marks and backslashes
// are those of a shell. Nothing is expanded and no shell runs it: what a shell would do more with is an error.
// See Argv for commands that a shell may run.
func Words(command string) (words []string, err error) {
	const special = "|&;<>()$`*?[]{}~#!\n"
	var word strings.Builder
	begun, quote := false, rune(0)
	escaped := false
	for _, c := range command {
		switch {
		case escaped:
			if quote == '"' && c != '"' && c != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == '"' && (c == '$' || c == '`'):
			return nil, fmt.Errorf("%q in double quotes, which only a shell expands; use single quotes", c)
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == ' ' || c == '\t':
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		case strings.ContainsRune(special, c):
			return nil, fmt.Errorf("%q without quotes, which only a shell understands; quote it, or write sh -c '...'",
				c)
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("a quotation that does not end")
	}
	if begun {
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("no program")
	}
	return words, nil
}
