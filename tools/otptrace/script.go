package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// script is the lines of one script, without comments and blank lines.
type script []line

// line is a line of a script: a command word and its arguments.
type line struct {
	no   int // in the input, from 1
	text string
	word string
	args []string
}

// arity lists the numbers of arguments that each command accepts.
var arity = map[string][]int{
	"sup": {4}, "child": {7}, "start": {0}, "add": {1, 7}, "exit": {2},
	"terminate": {1}, "restart": {1}, "delete": {1}, "spec": {1},
	"which": {0}, "count": {0}, "sleep": {1}, "stop": {0},
}

// readScripts splits the input at "---".
func readScripts(in io.Reader) ([]script, error) {
	var scripts []script
	var s script
	end := func() {
		if len(s) > 0 {
			scripts, s = append(scripts, s), nil
		}
	}
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 1<<20)
	no := 0
	for sc.Scan() {
		no++
		switch text := strings.Trim(fromLatin1(sc.Bytes()), "\t\n\v\f\r \u0085"); {
		case text == "---":
			end()
		case text == "" || text[0] == '%':
		default:
			l, err := parseLine(no, text)
			if err != nil {
				return nil, err
			}
			s = append(s, l)
		}
	}
	end()
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", no+1, err)
	}
	return scripts, nil
}

func parseLine(no int, text string) (line, error) {
	words := strings.FieldsFunc(text, func(c rune) bool { return c == ' ' })
	l := line{no, text, words[0], words[1:]}
	counts, ok := arity[l.word]
	if !ok {
		return l, fmt.Errorf("line %d: %q: unknown command", no, text)
	}
	if slices.Contains(counts, len(l.args)) {
		return l, nil
	}
	return l, fmt.Errorf("line %d: %q: %s takes %d arguments, not %d", no, text, l.word, counts[len(counts)-1],
		len(l.args))
}

// fromLatin1 and toLatin1 convert text like Erlang, which reads and writes bytes as characters.
func fromLatin1(text []byte) string {
	runes := make([]rune, len(text))
	for i, b := range text {
		runes[i] = rune(b)
	}
	return string(runes)
}

func toLatin1(text string) []byte {
	b := make([]byte, 0, len(text))
	for _, c := range text {
		b = append(b, byte(c))
	}
	return b
}
