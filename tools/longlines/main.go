// Command longlines prints the Go lines that have more than 120 columns, where a tab
// has four, and exits with 1 if there are any. Raw strings, struct tags and directives
// are left out: they cannot be broken. The files are its arguments.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"strings"
	"unicode/utf8"
)

const (
	limit    = 120
	tabWidth = 4
)

func main() {
	code := 0
	for _, name := range os.Args[1:] {
		source, err := os.ReadFile(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for _, line := range long(source) {
			fmt.Printf("%s:%d: more than %d columns\n", name, line, limit)
			code = 1
		}
	}
	os.Exit(code)
}

// long returns the numbers of the lines of a file that are too long.
func long(source []byte) (all []int) {
	raw := rawLines(source)
	lines := bufio.NewScanner(bytes.NewReader(source))
	lines.Buffer(nil, len(source)+1)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		columns := utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
		if columns > limit && !raw[n] && !strings.HasPrefix(line, "//go:") {
			all = append(all, n)
		}
	}
	return all
}

// rawLines are the lines on which a part of a raw string stands.
func rawLines(source []byte) map[int]bool {
	raw := make(map[int]bool)
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	for {
		at, kind, text := s.Scan()
		switch {
		case kind == token.EOF:
			return raw
		case kind == token.STRING && text[0] == '`':
			first := file.Line(at)
			for n := range strings.Count(text, "\n") + 1 {
				raw[first+n] = true
			}
		}
	}
}
