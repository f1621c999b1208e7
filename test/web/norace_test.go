//go:build !race

package web

var raceFlag []string
