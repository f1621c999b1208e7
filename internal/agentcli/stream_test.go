package agentcli

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Output of the command lines, shortened.
const (
	claudeInit   = `{"type":"system","subtype":"init","cwd":"/x","session_id":"s","tools":["Bash"],"model":"m","permissionMode":"default"}` + "\n"
	claudeFirst  = `{"type":"assistant","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm"}],"stop_reason":null,"usage":{"input_tokens":3,"cache_creation_input_tokens":8885,"cache_read_input_tokens":15000,"output_tokens":2,"service_tier":"standard"}},"parent_tool_use_id":null,"session_id":"s"}` + "\n"
	claudeAgain  = `{"type":"assistant","message":{"id":"msg_1","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}],"usage":{"input_tokens":3,"cache_creation_input_tokens":8885,"output_tokens":12}},"parent_tool_use_id":null}` + "\n"
	claudeTool   = `{"type":"user","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":"{\"type\":\"result\",\"usage\":{\"output_tokens\":999999}}","is_error":true}]}}` + "\n"
	claudeBelow  = `{"type":"assistant","message":{"id":"msg_2","content":[{"type":"text","text":"below"}],"usage":{"input_tokens":50,"output_tokens":50}},"parent_tool_use_id":"t1"}` + "\n"
	claudeResult = `{"type":"result","subtype":"success","is_error":false,"duration_ms":3952,"num_turns":2,"result":"All is up.","session_id":"s","total_cost_usd":0.1,"usage":{"input_tokens":3,"cache_creation_input_tokens":8885,"cache_read_input_tokens":15000,"output_tokens":40,"server_tool_use":{"web_search_requests":0}},"modelUsage":{"m":{"inputTokens":60,"outputTokens":140,"cacheReadInputTokens":15000,"cacheCreationInputTokens":8885,"costUSD":0.09},"small":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":0,"cacheCreationInputTokens":0}},"permission_denials":[]}` + "\n"
	claudeZeros  = `{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["connection lost"],"usage":{"input_tokens":0,"output_tokens":0}}` + "\n"
	claudeWarned = `{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","utilization":0.9},"usage":{"output_tokens":7}}` + "\n"

	codexBegin = `{"type":"thread.started","thread_id":"t"}` + "\n" + `{"type":"turn.started"}` + "\n"
	codexItem  = `{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"All is up."}}` + "\n"
	codexEnd   = `{"type":"turn.completed","usage":{"input_tokens":24763,"cached_input_tokens":24448,"output_tokens":122,"reasoning_output_tokens":64}}` + "\n"
	codexFail  = `{"type":"error","message":"stream disconnected, retrying"}` + "\n" + `{"type":"turn.failed","error":{"message":"unexpected status 401"}}` + "\n"

	gemini = `Loaded cached credentials.
{
  "session_id": "s",
  "response": "All is up.\n{\"is_error\": true}",
  "stats": {
    "models": {
      "gemini-pro": {
        "api": {"totalRequests": 2, "totalErrors": 0},
        "tokens": {
          "prompt": 24939,
          "candidates": 20,
          "total": 25113,
          "cached": 21263,
          "thoughts": 154,
          "tool": 0
        }
      },
      "gemini-flash": {
        "tokens": {"prompt": 100, "candidates": 10, "total": 110}
      }
    },
    "tools": {"totalCalls": 1}
  }
}
`
	geminiStream = `{"type":"init","session_id":"s","model":"m"}` + "\n" +
		`{"type":"message","role":"user","content":"is all up?"}` + "\n" +
		`{"type":"message","role":"assistant","content":"All ","delta":true}` + "\n" +
		`{"type":"message","role":"assistant","content":"is up.","delta":true}` + "\n" +
		`{"type":"error","severity":"warning","message":"Loop detected"}` + "\n" +
		`{"type":"result","status":"success","stats":{"total_tokens":300,"input_tokens":250,"output_tokens":40,"cached":200,"duration_ms":5}}` + "\n"
	geminiFailed = `{"type":"result","status":"error","error":{"type":"TerminalQuotaError","message":"no more today"},"stats":{"total_tokens":3}}` + "\n"

	openStep  = `{"type":"step_finish","timestamp":1,"sessionID":"ses_1","part":{"id":"p","type":"step-finish","reason":"tool-calls","cost":0,"tokens":{"input":100,"output":20,"reasoning":5,"cache":{"read":1000,"write":30}}}}` + "\n"
	openText  = `{"type":"text","timestamp":2,"sessionID":"ses_1","part":{"type":"text","text":"All is up."}}` + "\n"
	openLast  = `{"type":"step_finish","timestamp":3,"sessionID":"ses_1","part":{"reason":"stop","tokens":{"input":10,"output":2,"reasoning":0,"cache":{"read":0,"write":0}}}}` + "\n"
	openError = `{"type":"error","timestamp":4,"sessionID":"ses_1","error":{"name":"APIError","data":{"message":"overloaded"}}}` + "\n"
)

// brief is what most tests look at.
type brief struct {
	Tokens        int64
	Known, Failed bool
	Text          string
	Ended         bool
}

func briefly(r Report) brief { return brief{r.Tokens(), r.Known, r.Failed, r.Text, r.Ended} }

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, out string
		expected  brief
	}{
		{"claude, one object", claudeResult, brief{9100, true, false, "All is up.", true}},
		{"claude, without its last line end", strings.TrimSpace(claudeResult), brief{9100, true, false, "All is up.", true}},
		{"claude, an older one that knows no models", `{"type":"result","is_error":false,"result":"done","usage":{"input_tokens":10,"cache_read_input_tokens":99,"output_tokens":5}}`, brief{15, true, false, "done", true}},
		{"claude, on the way", claudeInit + claudeFirst, brief{8890, true, false, "", false}},
		{"claude, a message that comes twice", claudeInit + claudeFirst + claudeAgain, brief{8900, true, false, "I look.", false}},
		{"claude, what tools print is no word of its own", claudeFirst + claudeAgain + claudeTool, brief{8900, true, false, "I look.", false}},
		{"claude, an agent below it", claudeAgain + claudeBelow, brief{9000, true, false, "I look.", false}},
		{"claude, to its end", claudeInit + claudeFirst + claudeAgain + claudeTool + claudeBelow + claudeWarned + claudeResult, brief{9100, true, false, "All is up.", true}},
		{"claude, crashed", claudeFirst + claudeZeros, brief{8890, true, true, "connection lost", true}},
		{"claude, an error that is a success", `{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"limit reached","usage":{"input_tokens":0,"output_tokens":0}}`, brief{0, true, true, "limit reached", true}},
		{"claude, out of turns", `{"type":"result","subtype":"error_max_turns","is_error":false,"usage":{"output_tokens":4}}`, brief{4, true, true, "", true}},
		{"claude, out of context", `{"type":"result","subtype":"success","terminal_reason":"prompt_too_long","usage":{"output_tokens":4}}`, brief{4, true, true, "", true}},
		{"claude, killed in a line", claudeFirst + claudeResult[:len(claudeResult)/2], brief{8890, true, false, "", false}},
		{"claude, a line within a line", claudeFirst[:40] + strings.TrimSpace(claudeWarned) + claudeFirst[40:] + claudeAgain, brief{8900, true, false, "I look.", false}},

		{"codex", codexBegin + codexItem + codexEnd, brief{437, true, false, "All is up.", true}},
		{"codex, on the way", codexBegin + codexItem, brief{0, false, false, "All is up.", false}},
		{"codex, two turns: the second tells of both", codexBegin + codexEnd + codexBegin + `{"type":"turn.completed","usage":{"input_tokens":25000,"cached_input_tokens":24448,"output_tokens":200}}`, brief{752, true, false, "", true}},
		{"codex, failed", codexBegin + codexFail, brief{0, false, true, "unexpected status 401", true}},
		{"codex, failed and then not", codexBegin + codexFail + codexBegin + codexItem + codexEnd, brief{437, true, false, "All is up.", true}},

		{"gemini", gemini, brief{3960, true, false, "All is up.\n{\"is_error\": true}", true}},
		{"gemini, an error", "{\n  \"error\": {\n    \"type\": \"Error\",\n    \"message\": \"no key\",\n    \"code\": 41\n  }\n}\n", brief{0, false, true, "no key", true}},
		{"gemini, a stream that ends in a loop", geminiStream, brief{100, true, true, "All is up.", true}},
		{"gemini, a stream that fails", geminiFailed, brief{3, true, true, "no more today", true}},

		{"opencode, on the way", openStep, brief{155, true, false, "", false}},
		{"opencode", openStep + strings.Replace(openStep, `"id":"p"`, `"id":"q"`, 1) + openText + openLast, brief{322, true, false, "All is up.", true}},
		{"opencode, failed", openStep + openError, brief{155, true, true, "overloaded", true}},

		{"a command of one's own", "thinking\n{\"x\":1}\n" + `{"usage":{"input_tokens":1,"output_tokens":2},"result":"a"}` + "\n", brief{3, true, false, "a", true}},
		{"its last word counts", `{"usage":{"output_tokens":1}}` + "\n" + `{"usage":{"output_tokens":2}}` + "\nbye\n", brief{2, true, false, "", false}},
		{"of an unknown kind, on the way", `{"type":"progress","usage":{"output_tokens":2}}`, brief{2, true, false, "", false}},
		{"an error with exit code 0", `{"is_error":true,"result":"credit is too low"}`, brief{0, false, true, "credit is too low", true}},
		{"a total", `{"total_tokens": 12}`, brief{12, true, false, "", false}},
		{"of several lines, and indented", "  {\"usage\":\n {\"output_tokens\": 2}}\n", brief{2, true, false, "", false}},
		{"no JSON", "all fine, 12 tokens", brief{}},
		{"nothing", "", brief{}},
		{"hostile numbers", `{"usage":{"input_tokens":-5,"output_tokens":9223372036854775807}}`, brief{math.MaxInt64, true, false, "", false}},
		{"an overflow", `{"usage":{"input_tokens":9223372036854775807,"output_tokens":9223372036854775807}}`, brief{math.MaxInt64, true, false, "", false}},
		{"an overflow of many", strings.Repeat(`{"type":"assistant","message":{"usage":{"output_tokens":9223372036854775807}}}`+"\n", 3), brief{math.MaxInt64, true, false, "", false}},
		{"too large a number", `{"usage":{"output_tokens":92233720368547758079}}`, brief{}},
		{"more from a cache than there was", `{"type":"turn.completed","usage":{"input_tokens":5,"cached_input_tokens":9,"output_tokens":1}}`, brief{1, true, false, "", true}},
		{"not whole", `{"usage":{"input_tokens":1.5}}`, brief{}},
		{"of other types", `{"usage":"much","is_error":"no","result":{"a":1}}`, brief{}},
		{"one field of another type", `{"type":"assistant","message":{"id":7,"content":"text","usage":{"output_tokens":3}}}`, brief{3, true, false, "", false}},
		{"after one that never ends", `{"a":{` + "\n" + claudeResult, brief{9100, true, false, "All is up.", true}},
		{"of several lines, after one that never ends", `{"a":{` + "\n" + gemini, brief{3960, true, false, "All is up.\n{\"is_error\": true}", true}},
		{"after one that is cut off in a string", `{"a":"b` + "\n" + claudeResult, brief{9100, true, false, "All is up.", true}},
		{"after too many ends", "}\n}}\n" + claudeResult, brief{9100, true, false, "All is up.", true}},
		{"after a line that is too long", `{"x":"` + strings.Repeat("x", maxObject) + `"}` + "\n" + claudeResult, brief{9100, true, false, "All is up.", true}},
		{"in a long line", strings.Replace(claudeFirst, "hm", strings.Repeat("x", 5<<20), 1), brief{8890, true, false, "", false}},
		{"not UTF-8", "\xff\xfe{\n" + claudeResult, brief{9100, true, false, "All is up.", true}},
		{"with the line ends of Windows", strings.ReplaceAll(claudeFirst+claudeResult, "\n", "\r\n"), brief{9100, true, false, "All is up.", true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := briefly(Read(Plain, []byte(c.out))); got != c.expected {
				t.Errorf("%+v, expected %+v", got, c.expected)
			}
		})
	}
}

func TestReadUsage(t *testing.T) {
	type usage struct {
		tokens int64
		known  bool
	}
	for text, expected := range map[string]usage{
		"1200\n": {1200, true},
		`{"input_tokens": 3, "output_tokens": 4}`: {7, true},
		"{\n\"tokens\": 9\n}":                     {9, true},
		"100\n{\"tokens\": 20}\n3\n":              {123, true},
		"100\n{\"tok":                             {100, true},
		"-4":                                      {0, true},
		"":                                        {},
		"a lot":                                   {},
		claudeFirst:                               {8890, true},
	} {
		if tokens, known := ReadUsage([]byte(text)); (usage{tokens, known}) != expected {
			t.Errorf("%q: %d %v, expected %+v", text, tokens, known, expected)
		}
	}
}

// The report does not depend on how the output is split into writes.
func TestStreamInPieces(t *testing.T) {
	all := []string{claudeInit, claudeFirst, claudeAgain, claudeTool, claudeBelow, claudeWarned, claudeResult, claudeZeros, codexBegin, codexItem, codexEnd, codexFail, gemini, geminiStream, geminiFailed,
		openStep, openText, openLast, openError, "{\n", "}\n", "\"", "\n", "x\n", `{"a":{`}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom(all)).Draw(t, "text"), "")
		expected := Read(Plain, []byte(text))
		s := Stream{CLI: Plain}
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			s.Write([]byte(rest[:n]))
			rest = rest[n:]
			s.Report() // to look changes nothing
		}
		s.Close()
		if got := s.Report(); !cmp.Equal(got, expected) {
			t.Fatalf("%+v, in one piece %+v", got, expected)
		}
	})
}

// A Stream uses bounded memory for any output.
func TestBounds(t *testing.T) {
	var s Stream
	for range 40 {
		s.Write([]byte(strings.Repeat("x", 1<<20)))
	}
	if n := cap(s.objects.line); n > 4*maxObject {
		t.Errorf("%d bytes are kept of a line without an end", n)
	}
	s.Write([]byte("\n{\n"))
	for range 40 {
		s.Write([]byte(`"a": "` + strings.Repeat("x", 1<<20) + "\",\n"))
	}
	if len(s.objects.line) > 0 || len(s.objects.block) > maxObject {
		t.Errorf("%d bytes of an object are kept", len(s.objects.block))
	}
	for i := range maxMessages + 10 {
		s.add(Event{Kind: Tokens, ID: fmt.Sprint(i), Usage: Usage{Input: 1}})
	}
	if n := s.Report().Tokens(); len(s.tally.messages) > maxMessages || n != maxMessages+10 {
		t.Errorf("%d messages, %d tokens", len(s.tally.messages), n)
	}
	for range 100 {
		fmt.Fprintf(&s, `{"type":"message","role":"assistant","delta":true,"content":"%s"}`+"\n", strings.Repeat("ä", 100_000))
	}
	if n := len(s.Report().Text); n > maxText {
		t.Errorf("an answer of %d bytes is kept", n)
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{claudeFirst + claudeResult, codexBegin + codexFail + codexEnd, gemini, geminiStream, openStep + openLast, "100\n{\"tokens\": 20}\n", "{\n\"a\"\n:{}}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, cli := range CLIs() {
			for _, source := range []Source{FromStream, FromSession, FromStderr} {
				s := Stream{CLI: cli, Source: source}
				s.Write(b)
				s.Close()
				if r := s.Report(); r.Tokens() < 0 || r.Tokens() > 0 && !r.Known {
					t.Fatalf("%s, %s: %+v", cli, source, r)
				}
				Classify(End{CLI: cli, Code: len(b), Output: s.Report(), Stderr: s.Report(), Session: s.Report()})
			}
		}
		if n, known := ReadUsage(b); n < 0 || n > 0 && !known {
			t.Fatal(n, known)
		}
	})
}
