package agentcli

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"
)

// Stream reads what a run of a command line writes, while it is written, and sums it up in a Report. The
// zero value reads standard output of an unknown command line. A Stream is not safe for concurrent use.
type Stream struct {
	// CLI is the command line. If it is Plain or empty, each object is read as that of the command line
	// that writes such objects.
	CLI CLI
	// Source is what is read: FromStream if it is empty, FromStderr or FromSession.
	Source Source
	// Since is the start of the run. What a session file has of earlier runs is ignored.
	Since time.Time
	// Each is called with each event, if it is not nil.
	Each func(Event)

	objects objects
	line    []byte // of standard error
	tally   tally
	text    []byte // the end of the answer, of at least maxText bytes
	said    []byte // the end of the last message, of at least maxSaid bytes
	next    bool   // the next message begins another one
	report  Report
	calls   map[string]bool // calls of tools: whether they were counted as ended
	working map[string]bool // calls of tools that have begun and not ended
	denied  map[string]bool
}

// Report is what a command line has reported of its run so far.
type Report struct {
	CLI     CLI // what it is, as far as it is known
	Session string
	Version string
	Model   string // at its start
	Account Account
	// Origin is an entry in the file of the session, the one that its first event follows: only copilot reports it,
	// which reports its session at the end.
	Origin string

	Seen   bool   // it has reported anything in the format of its command line
	Models Models // what it has used
	Known  bool   // it has reported what it has used
	// Cumulative says that Models include earlier runs of the session.
	Cumulative bool

	Turns int64 // answers of the model; 0 also if it does not report them

	Text string // its answer; empty if it has not marked one
	Said string // the end of the last message of the model
	// Ended is set if the command has reported its end: it will use no more tokens.
	Ended  bool
	Failed bool // its result, or something for good, is a failure, whatever its exit code

	Failures []Failure // since it has last begun or gone on
	Retries  []Failure // calls of the model that it repeats, since the last that went well
	Retried  int       // all of these
	Windows  []Window  // the state of the quotas

	Calls     int // of tools
	Succeeded int // calls of tools that have ended well
	Working   int // calls of tools that have begun and not ended
	Denied    int // calls of tools that were denied

	Unknown map[string]int // objects of unknown kinds
}

// Tokens returns the tokens that count.
func (r Report) Tokens() int64 { return r.Models.Total().Tokens() }

// Bounds of the memory that a stream uses.
const (
	maxText     = 1 << 20 // bytes of an answer, whose end is kept
	maxSaid     = 4 << 10 // bytes of a message, whose end is kept
	maxFailure  = 4 << 10 // bytes of the text of a failure
	maxFailures = 16      // failures that are kept, the last ones
	maxCalls    = 100_000 // calls of tools that are told apart
	maxUnknown  = 50      // unknown kinds that are told apart
	maxLine     = 64 << 10
)

// Write reads more. It never fails.
func (s *Stream) Write(p []byte) (int, error) {
	if s.Source == FromStderr {
		s.writeLines(p)
	} else {
		s.objects.write(p, s.object)
	}
	return len(p), nil
}

// Close ends the last line. It never fails.
func (s *Stream) Close() error {
	if s.Source == FromStderr {
		s.writeLines([]byte{'\n'})
	} else {
		s.objects.close(s.object)
	}
	return nil
}

// writeLines splits standard error. Only the start of a long line is read.
func (s *Stream) writeLines(p []byte) {
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		s.line = append(s.line, part[:min(len(part), maxLine-len(s.line))]...)
		if !ended {
			return
		}
		s.errorLine(strings.ToValidUTF8(strings.TrimSpace(string(s.line)), "\uFFFD"))
		s.line, p = s.line[:0], rest
	}
}

// errorLine reads a line of standard error. Of an unknown command, only the lines of gemini are distinct
// enough to be recognised.
func (s *Stream) errorLine(line string) {
	cli := s.CLI
	if !s.fixed() {
		cli = Gemini
	}
	if a := adapterOf(cli); a.stderr != nil {
		a.stderr(line, func(e Event) {
			s.report.CLI = cli
			s.add(e)
		})
	}
}

// fixed reports whether the command line is known beforehand.
func (s *Stream) fixed() bool { return s.CLI != "" && s.CLI != Plain }

// object reads an object.
func (s *Stream) object(object []byte) {
	cli := s.CLI
	if !s.fixed() || s.Source != FromSession && untyped(object) {
		if cli = recognize(object); cli == Plain || s.fixed() && cli != s.CLI {
			s.plain(object)
			return
		}
	}
	a := adapterOf(cli)
	s.report.CLI = cli
	parse := a.output
	if s.Source == FromSession {
		parse = a.session
	}
	parse(object, func(e Event) {
		s.report.Seen = s.report.Seen || e.Kind != Unknown
		s.add(e)
	})
}

// Report returns what has been reported so far, in lines that have ended.
func (s *Stream) Report() Report {
	r := s.report
	if r.CLI == "" {
		r.CLI = s.CLI
	}
	r.Models, r.Known = s.tally.models(), s.tally.known
	if s.tally.turns > 0 {
		r.Turns = s.tally.turns
	}
	r.Text = strings.TrimSpace(lastPart(string(s.text), maxText))
	r.Said = strings.TrimSpace(lastPart(string(s.said), maxSaid))
	return r
}

// Add sums up an event of a command line that is read by other means than Write, such as an agent that speaks
// the Agent Client Protocol.
func (s *Stream) Add(e Event) {
	s.report.Seen = s.report.Seen || e.Kind != Unknown
	s.add(e)
}

// add sums up an event.
func (s *Stream) add(e Event) {
	if s.Source == FromSession && !s.Since.IsZero() && e.Time.Before(s.Since) && e.Kind != Session {
		return
	}
	r := &s.report
	switch e.Kind {
	case Session:
		s.session(e)
	case Turn:
		r.Ended, r.Failed, r.Failures, r.Retries = false, false, nil, nil
	case Message:
		r.Retries = nil
		s.say(e)
		if !e.Delta {
			r.Ended = false
			s.setText(e.Text)
		} else {
			s.addText(e.Text)
		}
	case Step:
		r.Ended, r.Retries = false, nil
	case Tool:
		s.tool(e)
	case Permission:
		if !s.denied[e.Call] && len(s.denied) < maxCalls {
			set(&s.denied, e.Call, true)
			r.Denied++
		}
	case Tokens:
		s.tokens(e)
	case Limit:
		for _, w := range e.Windows {
			s.window(w)
		}
	case Retry:
		r.Retried++
		r.Retries = appendFailure(r.Retries, e.Failure)
	case Failed:
		r.Failed = true
		r.Failures = appendFailure(r.Failures, e.Failure)
	case Result:
		r.Ended, r.Failed, r.Working = true, r.Failed || e.Failed, 0
		r.Turns = Add(r.Turns, e.Turns)
		clear(s.working)
		s.setText(e.Text)
	case Unknown:
		if _, known := r.Unknown[e.Name]; (known || len(r.Unknown) < maxUnknown) && len(e.Name) <= 100 {
			set(&r.Unknown, e.Name, r.Unknown[e.Name]+1)
		}
	}
	if s.Each != nil {
		s.Each(e)
	}
}

func set[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

func (s *Stream) session(e Event) {
	r := &s.report
	for _, f := range []struct {
		to   *string
		from string
	}{{&r.Session, e.Session}, {&r.Version, e.Version}, {&r.Model, e.Model}} {
		if f.from != "" && len(f.from) <= 200 {
			*f.to = f.from
		}
	}
	if e.Account != UnknownAccount {
		r.Account = e.Account
	}
	if r.Origin == "" && len(e.Origin) <= 200 {
		r.Origin = e.Origin
	}
}

func (s *Stream) tool(e Event) {
	r := &s.report
	r.Ended, r.Retries = false, nil
	s.next = true
	ended, known := s.calls[e.Call]
	if !known && len(s.calls) < maxCalls {
		r.Calls++
	}
	if e.Done && e.OK && !ended {
		r.Succeeded++
	}
	if len(s.calls) < maxCalls {
		set(&s.calls, e.Call, ended || e.Done && e.OK)
	}
	if e.Done {
		delete(s.working, e.Call)
	} else if len(s.working) < maxCalls {
		set(&s.working, e.Call, true)
	}
	r.Working = len(s.working)
}

func (s *Stream) tokens(e Event) {
	s.report.Retries = nil
	switch e.Scope {
	case OfMessage:
		s.tally.message(e.Model, e.ID, e.Usage)
	case OfPart:
		s.tally.part(e.Models)
	case OfRun:
		s.tally.atLeast(e.Models)
	case OfSession:
		s.tally.total(e.Models)
		s.report.Cumulative = true
	}
}

// window records the state of a quota in place of what was known of it.
func (s *Stream) window(w Window) {
	all := s.report.Windows
	for i := range all {
		if all[i].Name == w.Name {
			all[i] = w
			return
		}
	}
	if len(all) < maxFailures {
		s.report.Windows = append(all, w)
	}
}

func appendFailure(all []Failure, f Failure) []Failure {
	if len(f.Text) > maxFailure {
		f.Text = strings.ToValidUTF8(f.Text[:maxFailure], "")
	}
	if len(all) > 0 && all[len(all)-1] == f {
		return all
	}
	if len(all) >= maxFailures {
		all = all[1:]
	}
	return append(all[:len(all):len(all)], f)
}

func (s *Stream) setText(text string) {
	if strings.TrimSpace(text) != "" {
		s.text = nil
		s.addText(text)
	}
}

// addText appends to the answer. What is too much is removed from time to time, so that the cost does not
// depend on the length of the answer.
func (s *Stream) addText(text string) {
	s.text = append(s.text, text...)
	if over := len(s.text) - 2*maxText; over > 0 {
		s.text = bytes.Clone(s.text[len(s.text)-maxText-utf8.UTFMax:])
	}
}

// say keeps the last message. Of messages in parts, a call of a tool ends one.
func (s *Stream) say(e Event) {
	if strings.TrimSpace(e.Text) == "" && !e.Delta {
		return
	}
	if !e.Delta || s.next {
		s.said = nil
	}
	s.next = false
	s.said = append(s.said, e.Text...)
	if over := len(s.said) - 2*maxSaid; over > 0 {
		s.said = bytes.Clone(s.said[len(s.said)-maxSaid-utf8.UTFMax:])
	}
}

// lastPart returns the last bytes of a text.
func lastPart(text string, most int) string {
	if over := len(text) - most; over > 0 {
		text = strings.ToValidUTF8(text[over:], "")
	}
	return text
}

// Read reads the whole output of a command.
func Read(cli CLI, out []byte) Report {
	s := Stream{CLI: cli}
	s.Write(out)
	s.Close()
	return s.Report()
}
