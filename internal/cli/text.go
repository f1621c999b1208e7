package cli

import (
	"io"
	"strings"

	"github.com/coppice-dev/coppice/internal/cli/terminal"
)

// printText prints lines, wrapped where a terminal shows them.
func (s *streams) printText(lines []string, hang int) error {
	width, _ := terminal.Size(s.out)
	return s.printLines(terminal.WrapAll(lines, hang, width))
}

// complain prints an error or a warning, wrapped where a terminal shows it.
func (s *streams) complain(message string) {
	width, _ := terminal.Size(s.err)
	io.WriteString(s.err, strings.Join(terminal.WrapAll(strings.Split("coppice: "+message, "\n"), 4, width), "\n")+"\n")
}
