package library

// ShellSyntax returns the first character of a command line that has a meaning in a shell, and
// whether there is one. Shell.run takes lines of plain words, since it has no shell.
func ShellSyntax(line string) (bad rune, found bool) {
	for _, r := range line {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			continue
		}
		switch r {
		case ' ', '\t', '_', '-', '.', '/', ':', '=', '@', '%', '+', ',':
			continue
		}
		return r, true
	}
	return 0, false
}
