// Package syntax knows what a Sage program looks like: it reads the text of
// one into a tree, tells what is wrong with its form, and prints it in the one
// form that is the same for everybody.
package syntax
