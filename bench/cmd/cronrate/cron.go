package main

import (
	"fmt"
	"time"

	"github.com/adhocore/gronx"
	"github.com/hashicorp/cronexpr"
	robfig "github.com/robfig/cron/v3"

	"github.com/coppice-dev/coppice/internal/cron"
)

// next is the first time of an expression after another one, in the zone of that.
type next func(after time.Time) (time.Time, error)

// parse reads an expression in the way of an implementation.
func parse(impl, expr string) (next, error) {
	switch impl {
	case "coppice":
		berlin, err := time.LoadLocation(zone)
		if err != nil {
			return nil, err
		}
		s, err := cron.Parse(expr, berlin)
		if err != nil {
			return nil, err
		}
		return func(after time.Time) (time.Time, error) { return s.Next(after), nil }, nil
	case "robfig-cron":
		s, err := robfig.ParseStandard(expr)
		if err != nil {
			return nil, err
		}
		return func(after time.Time) (time.Time, error) { return s.Next(after), nil }, nil
	case "cronexpr":
		s, err := cronexpr.Parse(expr)
		if err != nil {
			return nil, err
		}
		return func(after time.Time) (time.Time, error) { return s.Next(after), nil }, nil
	case "gronx": // keeps nothing between two calls: it reads the expression each time
		g := gronx.New()
		if !g.IsValid(expr) {
			return nil, fmt.Errorf("gronx does not take %q", expr)
		}
		return func(after time.Time) (time.Time, error) { return gronx.NextTickAfter(expr, after, false) }, nil
	}
	return nil, fmt.Errorf("unknown implementation %q", impl)
}
