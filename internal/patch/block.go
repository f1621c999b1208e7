package patch

import "strings"

// isMarker reports whether a line is a marker of a search and replace block: "<<<<<<< SEARCH",
// "=======" or ">>>>>>> REPLACE", with 5 to 9 characters.
func isMarker(text string, c byte) bool {
	word := map[byte]string{'<': "SEARCH", '>': "REPLACE"}[c]
	rest := strings.TrimLeft(text, string(c))
	n := len(text) - len(rest)
	return n >= 5 && n <= 9 && strings.TrimSpace(rest) == word
}

// block reads a search and replace block.
func (p *scanner) block() error {
	start := p.at
	name := p.hint
	if name == "" {
		name = p.last
	}
	if name == "" {
		return p.errorf(start, "the search and replace block names no file: its path belongs on the line above")
	}
	var sides [2][]string
	side := 0
	for p.at++; ; p.at++ {
		switch text := p.peek(0); {
		case p.at >= len(p.lines) || isMarker(text, '<'):
			return p.errorf(start, "the search and replace block does not end: the patch is truncated")
		case isMarker(text, '=') && side == 1:
			return p.errorf(p.at, "the block has more than one line %q", text)
		case isMarker(text, '='):
			side = 1
			continue
		case isMarker(text, '>') && side == 0:
			return p.errorf(p.at, "the block has no line =======")
		case !isMarker(text, '>'):
			if sides[side] = append(sides[side], text); len(sides[side]) > maxHunkLines {
				return p.errorf(start, "the block has more than %d lines", maxHunkLines)
			}
			continue
		}
		break
	}
	p.at++
	p.hint, p.last = "", name
	f := edit{line: start + 1, action: update, names: []string{name}}
	if len(sides[0]) == 0 {
		f.action = create
		f.content = strings.Join(sides[1], "\n") + "\n"
		p.files = append(p.files, f)
		return nil
	}
	if err := p.addHunk(&f, hunk{line: start + 1, lines: compare(sides[0], sides[1])}); err != nil {
		return err
	}
	p.files = append(p.files, f)
	return nil
}

// maxTable bounds the table of compare, in entries.
const maxTable = 1 << 22

// compare returns the lines of a hunk that changes one text into another: those that both have
// are context.
func compare(old, now []string) []line {
	var head []line
	for len(old) > 0 && len(now) > 0 && old[0] == now[0] {
		head = append(head, line{' ', old[0]})
		old, now = old[1:], now[1:]
	}
	same := 0
	for same < min(len(old), len(now)) && old[len(old)-1-same] == now[len(now)-1-same] {
		same++
	}
	tail := all(' ', old[len(old)-same:])
	old, now = old[:len(old)-same], now[:len(now)-same]
	if width := len(now) + 1; (len(old)+1)*width <= maxTable {
		head = append(head, commonLines(old, now)...)
	} else {
		head = append(append(head, all('-', old)...), all('+', now)...)
	}
	return append(head, tail...)
}

func all(kind byte, texts []string) (lines []line) {
	for _, t := range texts {
		lines = append(lines, line{kind, t})
	}
	return lines
}

// commonLines is compare by the longest common subsequence.
func commonLines(old, now []string) (lines []line) {
	width := len(now) + 1
	longest := make([]int32, (len(old)+1)*width) // of what is left of both sides
	for i := len(old) - 1; i >= 0; i-- {
		for j := len(now) - 1; j >= 0; j-- {
			if old[i] == now[j] {
				longest[i*width+j] = longest[(i+1)*width+j+1] + 1
			} else {
				longest[i*width+j] = max(longest[(i+1)*width+j], longest[i*width+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(old) && j < len(now) {
		switch {
		case old[i] == now[j]:
			lines = append(lines, line{' ', old[i]})
			i, j = i+1, j+1
		case longest[(i+1)*width+j] >= longest[i*width+j+1]:
			lines = append(lines, line{'-', old[i]})
			i++
		default:
			lines = append(lines, line{'+', now[j]})
			j++
		}
	}
	return append(append(lines, all('-', old[i:])...), all('+', now[j:])...)
}
