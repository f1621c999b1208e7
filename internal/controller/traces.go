package controller

import (
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/traces"
	"github.com/coppice-dev/coppice/internal/traces/export"
)

// newTraces returns what exports the spans of a controller; nil if nothing does. epoch names the event log.
func newTraces(c *Controller, epoch func() string) *traces.Manager {
	if c.opts.Sandbox {
		return nil
	}
	return traces.New(traces.Options{
		Store: c.opts.Store, Log: c.log, Epoch: epoch, Logger: c.opts.Logger, Once: c.opts.Once,
		Settings: func() spec.Traces { return c.fleet().File.Traces },
		Connect: func(to spec.Traces) (traces.Connection, error) {
			return export.New(to, directory{c}.Project(), c.opts.Version)
		},
	})
}
