// Package daemon puts the parts of Coppice together. A Controller runs the tree of a project: it
// starts its supervisors, takes over agents that outlived an earlier daemon, and writes what happens
// to the store. Serve runs a Controller and its API from the lock of the project to the end.
package daemon
