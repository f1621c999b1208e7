package fakemodel

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Names of steps.
const (
	stepNormal     = "normal"
	stepSlow       = "slow"
	stepTool       = "tool"
	stepLoop       = "loop"
	stepCall       = "call"
	stepJSON       = "json"
	stepRateLimit  = "ratelimit"
	stepQuota      = "quota"
	stepSpend      = "spend"
	stepAuth       = "auth"
	stepInternal   = "e500"
	stepOverloaded = "overloaded"
	stepContext    = "context"
	stepHang       = "hang"
	stepHangMid    = "hangmid"
	stepCut        = "cut"
	stepBadJSON    = "badjson"
	stepErrMid     = "errmid"
	stepMaxTokens  = "maxtokens"
	stepRefusal    = "refusal"
)

// stepNames returns the names of all steps.
func stepNames() []string {
	return []string{
		stepNormal, stepSlow, stepTool, stepLoop, stepCall, stepJSON, stepRateLimit, stepQuota, stepSpend, stepAuth,
		stepInternal, stepOverloaded, stepContext, stepHang, stepHangMid, stepCut, stepBadJSON, stepErrMid,
		stepMaxTokens, stepRefusal,
	}
}

// Bounds of numbers in a scenario.
const (
	maxFactor  = 1e6
	maxSeconds = 1e9
	maxSlow    = 3600 // each second is a word of the answer
	maxTimes   = 1e6
)

// A scenario is the list of steps that answer the requests of a tag. It has at least one.
type scenario []step

// A step says how one request is answered, or several in a row.
type step struct {
	name   string
	arg    string
	times  int
	number float64 // the argument as a number, or its default
	tool   string  // NAME of a call
	input  object  // JSON of a call
}

// parseScenario parses a list of steps. A comma within an argument separates nothing, unless the
// name of a step follows.
func parseScenario(text string) (scenario, error) {
	names := stepNames()
	var steps scenario
	for start := 0; start <= len(text); {
		end := start
		for {
			comma := strings.IndexByte(text[end:], ',')
			if comma < 0 {
				end = len(text)
				break
			}
			end += comma
			if following := text[end+1:]; slices.Contains(names, stepName(following)) {
				break
			}
			end++
		}
		s, err := parseStep(text[start:end])
		if err != nil {
			return nil, fmt.Errorf("parsing scenario %q: %w", text, err)
		}
		steps = append(steps, s)
		start = end + 1
	}
	return steps, nil
}

// stepName returns the word that begins a text.
func stepName(text string) string {
	if i := strings.IndexAny(text, "=*,"); i >= 0 {
		return text[:i]
	}
	return text
}

// parseStep parses NAME, NAME=ARGUMENT or either with *TIMES.
func parseStep(text string) (step, error) {
	s := step{times: 1}
	if i := strings.LastIndexByte(text, '*'); i >= 0 && isNumber(text[i+1:]) {
		n, err := strconv.Atoi(text[i+1:])
		if err != nil || n < 1 || n > maxTimes {
			return s, fmt.Errorf("step %q: expected STEP*N with N from 1 to %d", text, int(maxTimes))
		}
		text, s.times = text[:i], n
	}
	s.name, s.arg, _ = strings.Cut(text, "=")
	if !slices.Contains(stepNames(), s.name) {
		return s, fmt.Errorf("unknown step %q, expected one of %s", s.name, strings.Join(stepNames(), ", "))
	}
	if err := s.parseArgument(); err != nil {
		return s, fmt.Errorf("step %q: %w", text, err)
	}
	return s, nil
}

// parseArgument checks the argument of a step and sets the fields that follow from it.
func (s *step) parseArgument() (err error) {
	switch s.name {
	case stepNormal:
		s.number, err = parseNumber(s.arg, 1, maxFactor)
	case stepSlow:
		s.number, err = parseWhole(s.arg, 10, maxSlow)
	case stepRateLimit:
		s.number, err = parseNumber(s.arg, 2, maxSeconds)
	case stepQuota:
		s.number, err = parseWhole(s.arg, 7200, maxSeconds)
	case stepTool, stepLoop, stepJSON:
	case stepCall:
		name, input, _ := strings.Cut(s.arg, ":")
		if s.tool = name; name == "" {
			return fmt.Errorf("expected %s=NAME:JSON", s.name)
		}
		v, _ := decode([]byte(orElse(input, "{}")))
		if s.input = asObject(v); s.input == nil {
			return fmt.Errorf("expected %s=NAME:JSON, where JSON is an object", s.name)
		}
	default:
		if s.arg != "" {
			return errors.New("expected no argument")
		}
	}
	return err
}

// parseNumber parses a number from 0 to a maximum; without a text it is the default.
func parseNumber(text string, byDefault, most float64) (float64, error) {
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= most) {
		return 0, fmt.Errorf("expected a number from 0 to %.0f", most)
	}
	return n, nil
}

// parseWhole parses a number without a fraction, as parseNumber does.
func parseWhole(text string, byDefault, most float64) (float64, error) {
	n, err := parseNumber(text, byDefault, most)
	if err == nil && n != math.Trunc(n) {
		err = fmt.Errorf("expected a whole number from 0 to %.0f", most)
	}
	return n, err
}

// isNumber reports whether a text consists of digits.
func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// at returns the step for the nth request, from 0.
func (s scenario) at(n int) step {
	for _, step := range s {
		if n < step.times {
			return step
		}
		n -= step.times
	}
	return s[len(s)-1]
}

// String returns the step as it stands in a scenario, without its repetition.
func (s step) String() string {
	if s.arg == "" {
		return s.name
	}
	return s.name + "=" + s.arg
}

// seconds returns the number of the step as text.
func (s step) seconds() string {
	return strconv.FormatFloat(s.number, 'f', -1, 64)
}

// fails reports whether the step answers requests on the side, too.
func (s step) fails() bool {
	switch s.name {
	case stepRateLimit, stepQuota, stepSpend, stepAuth, stepInternal, stepOverloaded, stepContext,
		stepHang, stepHangMid, stepCut, stepBadJSON, stepErrMid:
		return true
	}
	return false
}

// halves reports whether the step streams half an answer only.
func (s step) halves() bool {
	switch s.name {
	case stepHangMid, stepCut, stepBadJSON, stepErrMid:
		return true
	}
	return false
}
