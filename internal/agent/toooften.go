package agent

// TooOftenError is the failure of an agent that an order has started so often that its
// limit holds it.
type TooOftenError struct{ Order string }

func (e *TooOftenError) Error() string { return "started too often by order " + e.Order }
