// Package syntax defines the tokens and the syntax tree of Sage programs. Package parser turns
// source text into a tree and package printer turns a tree into text, like go/ast, go/parser and
// go/printer for Go.
package syntax
