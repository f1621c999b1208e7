package write

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coppice-dev/coppice/internal/cli/command"
	"github.com/coppice-dev/coppice/internal/config"
	"github.com/coppice-dev/coppice/internal/plaintext"
	"github.com/coppice-dev/coppice/internal/project/load"
)

func NewValidate(s *command.Streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check coppice.toml without starting anything",
		Long: `Check coppice.toml, with the commands and directories that it names, without
starting anything. Each error is one line, FILE:LINE:COLUMN; the exit code is then 78.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := command.FindConfig(file)
			if err != nil {
				return err
			}
			v, err := validate(path)
			if s.JSON {
				if e := s.PrintJSON(v); e != nil {
					return e
				}
			} else {
				for _, n := range v.notices {
					fmt.Fprintln(s.Err, n)
				}
			}
			switch {
			case err != nil && !s.JSON:
				fmt.Fprintln(s.Err, err)
				fallthrough
			case err != nil:
				return command.Exit(command.ExitConfig, nil)
			case !s.JSON:
				fmt.Fprintf(s.Out, "%s is valid: %s\n", path, v.summary())
			}
			return nil
		},
	}
	command.ConfigFlag(cmd, &file)
	s.JSONFlag(cmd, "one object, with all errors")
	return cmd
}

// validation is the JSON output of validate.
type validation struct {
	File        string  `json:"file"`
	Valid       bool    `json:"valid"`
	Agents      int     `json:"agents"`      // a pool counts as one
	Pools       int     `json:"pools"`       // how many of the agents are pools
	Supervisors int     `json:"supervisors"` // excluding the root
	Orders      int     `json:"orders"`
	Errors      []fault `json:"errors"`
	Warnings    []fault `json:"warnings"` // settings that are not supported

	notices []*config.Notice
}

// fault is an error or warning about a file.
type fault struct {
	File    string `json:"file"`
	Line    int    `json:"line"`   // from 1; 0 for the whole file
	Column  int    `json:"column"` // from 1, in characters; 0 with line 0
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func validate(path string) (validation, error) {
	v := validation{File: path, Errors: []fault{}, Warnings: []fault{}}
	tree, notices, err := load.Tree(path)
	v.notices, v.Valid = notices, err == nil
	for _, n := range notices {
		v.Warnings = append(v.Warnings, faultOf((*config.Error)(n)))
	}
	if bad, ok := errors.AsType[config.Errors](err); ok {
		for _, e := range bad {
			v.Errors = append(v.Errors, faultOf(e))
		}
	} else if err != nil {
		v.Errors = append(v.Errors, fault{File: path, Message: err.Error()})
	} else {
		for _, c := range tree.All() {
			switch a := c.Declared(); {
			case a == nil:
				v.Supervisors++
			case a.Pool != nil:
				v.Pools++
				fallthrough
			default:
				v.Agents++
			}
		}
		v.Orders = len(tree.Orders)
	}
	return v, err
}

// summary counts the contents of the file in words.
func (v validation) summary() string {
	text := plaintext.Plural(v.Agents, "agent")
	if v.Pools > 0 {
		text += fmt.Sprintf(" (%s)", plaintext.Plural(v.Pools, "pool"))
	}
	text += ", " + plaintext.Plural(v.Supervisors, "supervisor")
	if v.Orders > 0 {
		text += ", " + plaintext.Plural(v.Orders, "order")
	}
	return text
}

func faultOf(e *config.Error) fault {
	return fault{e.File, e.Line, e.Column, e.Key, e.Message, e.Hint}
}
