package aidefile

import (
	"fmt"
	"slices"
	"strings"
)

// Arguments returns the command with its placeholders replaced, in one pass. A value may be
// untrusted text, such as the title of an issue, and must not become an option: an argument
// whose leading placeholder begins with "-" is an error unless "--", which ends the options
// of a command, is right before it. A "--" further in front may belong to a wrapper, as in
// "timeout -- 60 claude {task}".
func (s Settings) Arguments(values map[string]string) ([]string, error) {
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, "{"+name+"}", strings.ReplaceAll(value, "\x00", ""))
	}
	replacer := strings.NewReplacer(pairs...)
	argv := make([]string, len(s.Command))
	for i, word := range s.Command {
		argv[i] = replacer.Replace(word)
		if strings.HasPrefix(argv[i], "-") && !strings.HasPrefix(word, "-") && !endsOptions(s.Command[:i]) {
			return nil, fmt.Errorf(
				`argument %d of [aide] command, %s, would begin with "-" and be an option (%.40q); write "--" `+
					`right before it, or leave it out: the task is on the standard input, too`,
				i, word, argv[i],
			)
		}
	}
	return argv, nil
}

// endsOptions reports whether the last word is "--", or only words that begin with a
// placeholder follow the last "--".
func endsOptions(words []string) bool {
	for _, word := range slices.Backward(words) {
		if word == "--" || !strings.HasPrefix(word, "{") {
			return word == "--"
		}
	}
	return false
}
