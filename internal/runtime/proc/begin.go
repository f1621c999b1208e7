package proc

import "context"

// Begin is Start with a readiness condition; a nil ready is satisfied by a
// program that could be loaded. The function that it returns must be called,
// once: it waits until ready says so, and fails when the process ends before
// that (an error that wraps supervisor.ErrNotReady and the *ExitError) or when
// its context is done first (an error that wraps its cause and says what the
// probe saw last). It leaves it to the caller to stop the process then.
func Begin(cmd Command, out Output, ready Probe) (*Process, func(context.Context) error, error) {
	if ready == nil {
		p, err := Start(cmd, out)
		return p, func(context.Context) error { return nil }, err
	}
	await, drop, err := Arm(ready, &cmd, &out)
	if err != nil {
		return nil, nil, err
	}
	p, err := Start(cmd, out)
	if err != nil {
		drop()
		return nil, nil, err
	}
	return p, func(ctx context.Context) error { return await(ctx, p) }, nil
}
