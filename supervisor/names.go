package supervisor

import (
	"fmt"
	"slices"
	"strings"
)

// The names of constants, as files, flags and traces spell them.
var (
	strategyNames = []string{"one_for_one", "one_for_all", "rest_for_one", "simple_one_for_one"}
	restartNames  = []string{"always", "on-failure", "never"}
	autoNames     = []string{"never", "any_significant", "all_significant", "when_done"}
	typeNames     = []string{"worker", "supervisor"}
	backoffNames  = []string{"none", "fixed", "linear", "exponential"}
	countNames    = []string{"restarts", "starts", "consecutive restarts", "failures"}
	onLimitNames  = []string{"escalate", "quarantine", "give_up", "pause"}
	exitNames     = []string{"none", "normal", "shutdown", "failure", "panic", "killed", "abandoned", "lost", "ignored"}
	stateNames    = []string{"stopped", "starting", "running", "stopping", "restarting", "waiting", "quarantined",
		"given_up", "paused", "suspended"}
	actionNames = []string{"left", "forgotten", "restart", "held", "supervisor ends"}
	reasonNames = []string{
		NoReason:              "",
		ReasonPermanent:       "it always restarts",
		ReasonTransientFailed: "it restarts on failure",
		ReasonTransientClean:  "ended well, restarts on failure only",
		ReasonTemporary:       "it never restarts",
		ReasonIgnored:         "its start said that it is not needed now",
		ReasonTerminated:      "stopped on request",
		ReasonSibling:         "a sibling failed and the strategy restarts both",
		ReasonShutdown:        "the supervisor is shutting down",
		ReasonStartFailed:     "a start that fails is tried again",
		ReasonLimitEscalate:   "limit reached, escalated to the parent",
		ReasonLimitQuarantine: "limit reached, quarantined until the window has room",
		ReasonLimitGiveUp:     "limit reached, given up until reset",
		ReasonLimitPause:      "limit reached, paused until resumed",
		ReasonProbe:           "waits for the probe that runs after the pause",
		ReasonSignificant:     "a significant child ended",
		ReasonDone:            "all children are done",
		ReasonManual:          "asked for by hand",
		ReasonAbandoned:       "a child did not stop and may not run twice",
		ReasonReset:           "reset",
		ReasonDeferred:        "has yet to be started",
		ReasonReplaced:        "it is started again",
		ReasonRetry:           "it has said when to try again",
		ReasonStopped:         "stopped by hand",
		ReasonSuspended:       "suspended until it is resumed",
		ReasonDrained:         "drained",
		ReasonRemoved:         "removed from the configuration",
		ReasonSurplus:         "its pool wants fewer instances",
		ReasonChanged:         "its configuration has changed",
		ReasonRequested:       "it has asked for a restart",
		ReasonMoved:           "it moves to another machine",
	}
)

func name(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("invalid(%d)", i)
}

func (s Strategy) String() string     { return name(strategyNames, uint8(s)) }
func (r Restart) String() string      { return name(restartNames, uint8(r)) }
func (a AutoShutdown) String() string { return name(autoNames, uint8(a)) }
func (t ChildType) String() string    { return name(typeNames, uint8(t)) }
func (k BackoffKind) String() string  { return name(backoffNames, uint8(k)) }
func (c Count) String() string        { return name(countNames, uint8(c)) }
func (t LimitAction) String() string  { return name(onLimitNames, uint8(t)) }
func (k ExitKind) String() string     { return name(exitNames, uint8(k)) }
func (s State) String() string        { return name(stateNames, uint8(s)) }
func (a Action) String() string       { return name(actionNames, uint8(a)) }
func (r Reason) String() string       { return name(reasonNames, uint8(r)) }

// parse finds text among names and aliases; Sage's spelling (OneForOne) and
// dashes count as the same word.
func parse(what string, names []string, aliases map[string]uint8, text string) (uint8, error) {
	if i := slices.Index(names, text); i >= 0 {
		return uint8(i), nil
	}
	if i, ok := aliases[text]; ok {
		return i, nil
	}
	return 0, fmt.Errorf("unknown %s %q, expected one of %s", what, text, strings.Join(names, ", "))
}

// ParseStrategy reads a strategy, in OTP's spelling or in Sage's.
func ParseStrategy(text string) (Strategy, error) {
	i, err := parse("strategy", strategyNames,
		map[string]uint8{"OneForOne": 0, "OneForAll": 1, "RestForOne": 2, "SimpleOneForOne": 3}, text)
	return Strategy(i), err
}

// ParseRestart reads always, on-failure or never, or the same in the spelling of
// OTP or Sage.
func ParseRestart(text string) (Restart, error) {
	i, err := parse("restart policy", restartNames, map[string]uint8{
		"permanent": 0, "transient": 1, "temporary": 2, "Permanent": 0, "Transient": 1, "Temporary": 2}, text)
	return Restart(i), err
}

// ParseBackoffKind reads none, fixed, linear or exponential.
func ParseBackoffKind(text string) (BackoffKind, error) {
	i, err := parse("backoff", backoffNames, nil, text)
	return BackoffKind(i), err
}

// ParseLimitAction reads escalate, quarantine, give_up or pause.
func ParseLimitAction(text string) (LimitAction, error) {
	i, err := parse("limit action", onLimitNames, map[string]uint8{"give-up": 2}, text)
	return LimitAction(i), err
}
