package command

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// NoArgs rejects arguments, with a hint: users who give one mostly mean the file.
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

// AtMostOne accepts no argument or one.
func AtMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("unexpected argument %q: %s takes one %s", args[1], cmd.CommandPath(), what)
		}
		return nil
	}
}

// One requires exactly one argument. The error is missing if there is none.
func One(what, missing string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		return cmp.Or(Some(missing)(cmd, args), AtMostOne(what)(cmd, args))
	}
}

// OnePath requires exactly one path.
func OnePath(cmd *cobra.Command, args []string) error {
	return One("path", "the path of an agent is missing; coppice ps lists them")(cmd, args)
}

// Some requires an argument. The error is missing if there is none.
func Some(missing string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return errors.New(missing)
		}
		return nil
	}
}

// SomeIDs requires an ID; list is the command that lists them.
func SomeIDs(what, list string) cobra.PositionalArgs {
	return Some("the id of a " + what + " is missing; " + list + " lists them")
}
