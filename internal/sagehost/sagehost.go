// Package sagehost is the host of Sage programs: it reads the files of their projects, stores their
// beliefs, runs their commands and takes their output. Open runs a program on its own. Programs makes
// programs a part of the daemon's tree.
package sagehost
