package aide

import (
	"fmt"
	"slices"
	"strings"
)

// Arguments are the command with its placeholders replaced, each once, in one
// pass. What replaces a placeholder may be anybody's text, such as the title of
// an issue, and is never an option: an argument that begins with a placeholder
// and then with "-" is an error, unless "--" comes before it, which ends the
// options of a command.
func (s Settings) Arguments(values map[string]string) ([]string, error) {
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, "{"+name+"}", strings.ReplaceAll(value, "\x00", ""))
	}
	replacer := strings.NewReplacer(pairs...)
	argv := make([]string, len(s.Command))
	for i, word := range s.Command {
		argv[i] = replacer.Replace(word)
		if strings.HasPrefix(argv[i], "-") && !strings.HasPrefix(word, "-") && !slices.Contains(s.Command[:i], "--") {
			return nil, fmt.Errorf(
				`argument %d of [aide] command, %s, would begin with "-" and be an option (%.40q); write "--" before it, or leave it out: the task is on the standard input, too`,
				i, word, argv[i],
			)
		}
	}
	return argv, nil
}
