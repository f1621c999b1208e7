// Package syntax defines the tokens and the syntax tree of Sage programs. Package
// parser makes a tree of a text, package printer a text of a tree, as go/ast,
// go/parser and go/printer do for Go.
package syntax
