// Package sagehost is what Coppice gives to Sage programs: it reads the files of
// their projects, stores their beliefs, runs their commands and takes their
// output. Open runs a program by itself; Programs makes programs a part of a
// controller's tree.
package sagehost
