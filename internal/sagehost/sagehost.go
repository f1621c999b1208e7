// Package sagehost implements what Sage programs need: it reads the files of
// their projects, stores their beliefs, runs their commands and takes their
// output. Open runs a program by itself; Programs makes programs a part of a
// controller's tree.
package sagehost
