package task

// Use is what the calls of language models in an attempt have used. Numbers that are known of no call are nil.
type Use struct {
	_ struct{} `schema:"AttemptUse" open:"true" doc:"What the calls of language models in an attempt have used. A number that is known of no call is left out."`

	Calls          int64    `json:"calls" minimum:"1" doc:"Calls that have ended."`
	UnknownTokens  int64    `json:"unknown_tokens,omitempty" minimum:"0" doc:"Calls whose tokens are not known, and not in the sum."`
	UnknownDollars int64    `json:"unknown_dollars,omitempty" minimum:"0" doc:"Calls whose dollars are not known, and not in the sum."`
	Tokens         *int64   `json:"tokens,omitempty" doc:"Tokens that count: input, what was written to a cache, and output."`
	Dollars        *float64 `json:"dollars,omitempty" doc:"Estimated by the command lines."`
}
