package proc

import "github.com/coppice-dev/coppice/internal/plaintext"

// Plain is plaintext.Line.
func Plain(line string) string { return plaintext.Line(line) }

// OneLine is plaintext.OneLine.
func OneLine(text string, limit int) string { return plaintext.OneLine(text, limit) }
