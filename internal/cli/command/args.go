package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

// NoArgs refuses arguments. Most who give one mean the file.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Lookup("path") != nil {
		return fmt.Errorf("unexpected argument %q; a node is named with: %s --path PATH", args[0], cmd.CommandPath())
	}
	if file := cmd.Flags().Lookup("file"); file != nil {
		flag := "--file"
		if file.Shorthand != "" {
			flag = "-" + file.Shorthand
		}
		return fmt.Errorf("unexpected argument %q; a file is named with: %s %s FILE", args[0], cmd.CommandPath(), flag)
	}
	return fmt.Errorf("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())
}

func AtMostOnePath(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return OnePath(cmd, args)
}

// OnePath checks the arguments of a command that takes one path.
func OnePath(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return fmt.Errorf("the path of an agent is missing; coppice ps lists them")
	case 1:
		return nil
	}
	return fmt.Errorf("unexpected argument %q: %s takes one path", args[1], cmd.CommandPath())
}

// JSONFlag adds the flag that asks for JSON.
func JSONFlag(cmd *cobra.Command, into *bool, what string) {
	cmd.Flags().BoolVar(into, "json", false, "print "+what)
}

// SomeIDs checks the arguments of a command that takes ids.
func SomeIDs(what, list string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("the id of a %s is missing; %s lists them", what, list)
		}
		return nil
	}
}
