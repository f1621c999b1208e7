// Package nodename checks the names of nodes and their labels. Nodes have them, and the settings of agents refer to
// them.
package nodename

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Bounds of names and labels.
const (
	Max       = 63 // bytes of the name of a node, as of a label in DNS
	MaxLabels = 32 // of a node
	MaxLabel  = 63 // bytes of the name or the value of a label
)

// Check returns what is wrong with the name of a node, or nil. A name has at most 63 lower-case letters, digits,
// "-" and ".", and no part between dots is empty or begins or ends with "-". Names of hosts are such names.
// Capital letters are refused because TLS compares DNS names without their case.
func Check(node string) error {
	const expected = `expected lower-case letters, digits, "-" and "."`
	switch {
	case node == "":
		return errors.New("the name of the node is missing; " + expected)
	case len(node) > Max:
		return fmt.Errorf("the name of the node %.70q has %d bytes; expected at most %d", node, len(node), Max)
	}
	for i := range len(node) {
		c := node[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '.':
		case 'A' <= c && c <= 'Z':
			return fmt.Errorf("the name of the node %q has capital letters; expected %q", node, strings.ToLower(node))
		default:
			return fmt.Errorf("the name of the node %q has other characters; %s", node, expected)
		}
	}
	for part := range strings.SplitSeq(node, ".") {
		if part == "" || part[0] == '-' || part[len(part)-1] == '-' {
			return fmt.Errorf(`the name of the node %q has an empty part, or "-" at the end of one; `+
				`expected a letter or digit at both ends of each part between dots`, node)
		}
	}
	return nil
}

// CheckLabels returns what is wrong with the labels of a node, or nil.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fmt.Errorf("%d labels, at most %d are allowed", len(labels), MaxLabels)
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if err := CheckLabel(name, labels[name]); err != nil {
			return err
		}
	}
	return nil
}

// CheckLabel returns what is wrong with a label, or nil. The value may be empty.
func CheckLabel(name, value string) error {
	if err := CheckLabelName(name); err != nil {
		return err
	}
	if err := checkLabelText(value, false); err != nil {
		return fmt.Errorf("label %s = %.70q: %w", name, value, err)
	}
	return nil
}

// CheckLabelName returns what is wrong with the name of a label, or nil.
func CheckLabelName(name string) error {
	err := checkLabelText(name, true)
	if name == "" {
		err = errors.New("the name is empty")
	}
	if err != nil {
		return fmt.Errorf("label %.70q: %w", name, err)
	}
	return nil
}

// checkLabelText checks the characters of the name of a label or of its value.
func checkLabelText(text string, name bool) error {
	if len(text) > MaxLabel {
		return fmt.Errorf("%d bytes, at most %d are allowed", len(text), MaxLabel)
	}
	for _, c := range []byte(text) {
		word := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !word && c != '-' && c != '_' && c != '.' && (c != '/' || !name) {
			return errors.New(`expected letters, digits, "-", "_" and "."; in a name also "/"`)
		}
	}
	return nil
}
