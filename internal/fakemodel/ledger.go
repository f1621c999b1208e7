package fakemodel

import (
	"math"
	"time"
)

// Usage counts tokens. Input counts those neither read from a cache nor written to one; Output
// includes Reasoning.
type Usage struct {
	Input     int `json:"input"`
	Cached    int `json:"cached"`
	Written   int `json:"written"`
	Output    int `json:"output"`
	Reasoning int `json:"reasoning"`
}

// AnswerUsage returns the usage of a normal answer. The numbers are different primes, so that a wrong
// sum shows which number it has missed.
func AnswerUsage() Usage {
	return Usage{Input: 1009, Cached: 211, Written: 103, Output: 53, Reasoning: 7}
}

// Prompt returns the tokens of the prompt, cached or not.
func (u Usage) Prompt() int { return u.Input + u.Cached + u.Written }

// add adds the tokens of another Usage.
func (u *Usage) add(v Usage) {
	u.Input += v.Input
	u.Cached += v.Cached
	u.Written += v.Written
	u.Output += v.Output
	u.Reasoning += v.Reasoning
}

// times returns the Usage with each number multiplied.
func (u Usage) times(factor float64) Usage {
	scaled := func(n int) int { return int(float64(n) * factor) }
	return Usage{scaled(u.Input), scaled(u.Cached), scaled(u.Written), scaled(u.Output), scaled(u.Reasoning)}
}

// Kinds of requests in the ledger.
const (
	KindMain  = "main"  // for an answer, with tools
	KindSide  = "side"  // for an answer, without tools or with a schema
	KindCount = "count" // of tokens
	KindOther = "other" // anything else; most are refused
)

// A Request is a line of the ledger.
type Request struct {
	N        int     `json:"n"` // from 1
	Tag      string  `json:"tag"`
	Scenario string  `json:"scenario"`
	Step     string  `json:"step"`
	API      string  `json:"api"` // anthropic, responses, chat or gemini
	Path     string  `json:"path"`
	Method   string  `json:"method"`
	Model    string  `json:"model"`
	Stream   bool    `json:"stream"`
	Kind     string  `json:"kind"`
	Status   int     `json:"status"`   // 0 if nothing was answered
	Sent     bool    `json:"sent"`     // whether the answer reached the client as a whole
	Messages int     `json:"messages"` // of the conversation
	Seconds  float64 `json:"t"`        // since the server was made
	Usage
}

// Sums counts the requests of a tag, and the tokens of those that were sent.
type Sums struct {
	Requests int `json:"requests"`
	Main     int `json:"main"`
	Side     int `json:"side"`
	Errors   int `json:"errors"` // of main and side, with a status of 400 or more
	Unsent   int `json:"unsent"` // of main and side
	Other    int `json:"other"`
	Usage
	Billed int `json:"billed"` // all except Cached
}

// Observe sets a function that is called with each new line of the ledger, in order and one at a
// time. The function must not call the Server.
func (s *Server) Observe(f func(Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe = f
}

// Ledger returns the requests of a tag, or with an empty tag those of all. A request is in the
// ledger before its client has the end of the answer.
func (s *Server) Ledger(tag string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := []Request{}
	for _, r := range s.ledger {
		if tag == "" || r.Tag == tag {
			rows = append(rows, r)
		}
	}
	return rows
}

// Sums returns the sums of Ledger.
func (s *Server) Sums(tag string) Sums {
	rows := s.Ledger(tag)
	sums := Sums{Requests: len(rows)}
	for _, r := range rows {
		if r.Sent {
			sums.add(r.Usage)
		}
		switch r.Kind {
		case KindMain:
			sums.Main++
		case KindSide:
			sums.Side++
		default:
			sums.Other++
			continue
		}
		if r.Status >= 400 {
			sums.Errors++
		}
		if !r.Sent {
			sums.Unsent++
		}
	}
	sums.Billed = sums.Input + sums.Written + sums.Output
	return sums
}

// record adds a request to the ledger.
func (s *Server) record(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.N = len(s.ledger) + 1
	r.Seconds = math.Round(time.Since(s.started).Seconds()*1000) / 1000
	s.ledger = append(s.ledger, r)
	if s.observe != nil {
		s.observe(r)
	}
}
