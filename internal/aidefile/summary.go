package aidefile

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Result is the result of a run.
type Result uint8

const (
	Succeeded Result = iota
	Failed           // the command failed
	TimedOut
	BudgetExhausted
	Faulty // the run could not begin: the Aidefile, a secret or a hook is at fault
	Spent  // the budget of its chain is exhausted, too, so no run can follow
	// Deferred: the command could not do its work for a reason outside of it: a usage limit, the login or
	// missing money. The agent waits, and its run is made again.
	Deferred
)

func (r Result) String() string {
	return [...]string{"success", "failure", "timeout", "budget", "faulty", "budget", "deferred"}[r]
}

// Status returns the word for it in a summary.
func (r Result) Status() string {
	switch r {
	case Succeeded:
		return "success"
	case TimedOut:
		return "timeout"
	}
	return "partial"
}

// Code returns the exit code of a run.
func (r Result) Code() int { return [...]int{0, 1, 124, 5, 78, 6, 75}[r] }

const (
	summaryOpen, summaryClose = "<aide-summary>", "</aide-summary>"
	tailBytes                 = 400
	cutMark                   = "\n[cut]"
)

// Summary returns the summary of a run: a header, and the last block that the agent marked
// as its summary or else the end of its output. It has at most the given number of tokens
// of 4 bytes.
func Summary(r Result, reason string, m *Meter, output string, tokens int64) string {
	text, marked := marked(output)
	if !marked {
		text = strings.TrimSpace(tail(output, tailBytes))
	}
	head := fmt.Sprintf("STATUS: %s\nTOKENS: %s/%d\nRETRIES: %d\n", r.Status(), m.UsedText(), m.Tokens,
		max(0, m.Calls()-1))
	if reason != "" {
		head += "REASON: " + strings.ReplaceAll(reason, "\n", " ") + "\n"
	}
	return cut(head+"\n"+text, tokens)
}

// marked returns the last summary in a text.
func marked(text string) (string, bool) {
	end := strings.LastIndex(text, summaryClose)
	if end < 0 {
		return "", false
	}
	begin := strings.LastIndex(text[:end], summaryOpen)
	if begin < 0 {
		return "", false
	}
	return strings.TrimSpace(text[begin+len(summaryOpen) : end]), true
}

// tail returns the last n bytes of a text, or a little less so that no character is cut.
func tail(text string, n int) string {
	if len(text) <= n {
		return text
	}
	at := len(text) - n
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return text[at:]
}

func cut(text string, tokens int64) string {
	if int64(len(text))/4 < tokens || int64(len(text)) <= tokens*4 {
		return text
	}
	at := max(0, int(tokens)*4-len(cutMark))
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	if at == 0 {
		return ""
	}
	return text[:at] + cutMark
}
