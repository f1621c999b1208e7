package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/coppice-dev/coppice/internal/api"
	"github.com/coppice-dev/coppice/internal/api/endpoint"
	"github.com/coppice-dev/coppice/internal/event"
	"github.com/coppice-dev/coppice/internal/exectest"
	"github.com/coppice-dev/coppice/internal/mail"
	"github.com/coppice-dev/coppice/internal/question"
	"github.com/coppice-dev/coppice/internal/status"
)

// tokenKeeperTOML returns an agent that writes its token to a file.
func tokenKeeperTOML(name string) string {
	return agentTOML(name, `echo "$COPPICE_TOKEN" > new.`+name+`; mv new.`+name+` token.`+name+`."$COPPICE_INCARNATION"
exec sleep 1000`)
}

// token waits for the token of an incarnation.
func (f *fleet) token(name string, incarnation int) string {
	f.t.Helper()
	path := filepath.Join(f.dir, fmt.Sprintf("token.%s.%d", name, incarnation))
	eventually(f.t, path, func() bool { _, err := os.Stat(path); return err == nil })
	data, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// asAgent starts a command as an agent.
func (f *fleet) asAgent(name string, incarnation int, args ...string) *childProcess {
	f.t.Helper()
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	r := newCoppice(f.t, append([]string{"agent"}, args...)...)
	r.Env = append(os.Environ(), "COPPICE_SOCKET="+socket, "COPPICE_TOKEN="+f.token(name, incarnation))
	r.start(f.dir)
	return r
}

// wantAgentCode runs a command as an agent; it must exit with a code.
func (f *fleet) wantAgentCode(code int, name string, incarnation int, args ...string) string {
	f.t.Helper()
	r := f.asAgent(name, incarnation, args...)
	r.wantExit(code)
	return r.out.String() + r.err.String()
}

// wantCode runs a command that must exit with a code, and returns its output.
func (f *fleet) wantCode(code int, args ...string) string {
	f.t.Helper()
	out, err := f.try(args...)
	var exit *exec.ExitError
	got := 0
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	}
	if got != code {
		f.t.Fatalf("coppice %s: exit code %d, want %d: %s", strings.Join(args, " "), got, code, out)
	}
	return out
}

func (f *fleet) awaitQuestion(n int) question.Question {
	f.t.Helper()
	var open []question.Question
	eventually(f.t, "the question", func() bool {
		var err error
		if open, err = question.List.Call(f.t.Context(), f.client(), question.ListRequest{All: false}); err != nil {
			f.t.Fatal(err)
		}
		return len(open) >= n
	})
	return open[n-1]
}

func (f *fleet) awaitFile(name string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	eventually(f.t, name, func() bool { _, err := os.Stat(path); return err == nil })
	data, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(data)
}

// asksTOML returns an agent that asks with these arguments and saves the answer.
func asksTOML(name string, args string) string {
	return agentTOML(name, fmt.Sprintf(`coppice agent ask %s > new.%s 2>&1; echo "exit code $?" >> new.%[2]s
mv new.%[2]s answer."$COPPICE_INCARNATION"
exec sleep 1000`, args, name))
}

// An agent asks and is killed. Its successor asks again and gets the one answer.
func TestAskAndDie(t *testing.T) {
	t.Parallel()
	f := newFleet(t, asksTOML("a", `'Deploy now?' --options yes,no`))
	f.do("up", "-d")
	q := f.awaitQuestion(1)
	if q.From != "t/a" || q.Incarnation != 1 || q.Text != "Deploy now?" || strings.Join(q.Options, " ") != "yes no" {
		t.Errorf("%+v", q)
	}
	n := f.node("t/a")
	if n.State != "running" || n.NeedsInput == nil || n.NeedsInput.ID != q.ID || n.NeedsInput.Text != q.Text || n.NeedsInput.Open != 1 {
		t.Errorf("%+v, %+v", n, n.NeedsInput)
	}
	for args, want := range map[string]string{
		"ps": "needs input", "tree": "needs input", "explain a": "t/a needs input", "status": "t/a needs input: Deploy now?", "inbox": "yes | no",
	} {
		if out := f.do(strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("%s does not say %q:\n%s", args, want, out)
		}
	}
	if s := f.status(); s.NeedsInput != 1 || s.Inbox != (status.Inbox{Questions: 1}) || s.Summary["running"] != 1 {
		t.Errorf("%+v", s)
	}
	exectest.Signal(t, -n.PID, syscall.SIGKILL)
	eventually(t, "the successor", func() bool { return f.node("t/a").Incarnation == 2 })
	if out := f.do("answer", q.ID, "1"); !strings.Contains(out, "q-1 of t/a is answered: yes") {
		t.Errorf("%s", out)
	}
	if got := f.awaitFile("answer.2"); got != "yes\nexit code 0\n" {
		t.Errorf("the agent got %q", got)
	}
	all, err := question.List.Call(t.Context(), f.client(), question.ListRequest{All: true})
	if err != nil || len(all) != 1 || all[0].State != question.Answered || all[0].Answer != "yes" {
		t.Errorf("%+v, %v", all, err)
	}
	eventually(t, "that the answer was taken", func() bool {
		q, err := question.Get.Call(t.Context(), f.client(), question.ID{ID: "q-1"})
		return err == nil && !q.TakenAt.IsZero()
	})
	if n := f.node("t/a"); n.NeedsInput != nil {
		t.Errorf("%+v", n.NeedsInput)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "answer.1")); err == nil {
		t.Error("the first incarnation got an answer, too")
	}
}

// An answer given while the agent is down is there when it asks again; until then it is in the
// mail.
func TestAnswerWhileDown(t *testing.T) {
	t.Parallel()
	f := newFleet(t, asksTOML("a", `'Deploy now?'`))
	f.do("up", "-d")
	q := f.awaitQuestion(1)
	f.do("stop", "a")
	f.do("answer", q.ID, "yes, but", "carefully")
	f.crash()
	f.do("up", "-d")
	f.do("start", "a")
	if got := f.awaitFile("answer.2"); got != "yes, but carefully\nexit code 0\n" {
		t.Errorf("the agent got %q", got)
	}
	// A known answer is not news: the mail about it is archived.
	var told []string
	for _, line := range strings.Split(strings.TrimSpace(f.do("events", "--json", "--type", "mail.*", "--type", "question.*")), "\n") {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		told = append(told, string(e.Type))
		if strings.Contains(line, "carefully") {
			t.Errorf("an event says what was answered: %s", line)
		}
	}
	if got := strings.Join(told, " "); got != "question.asked question.answered mail.sent" {
		t.Errorf("events: %s", got)
	}
	eventually(t, "that the answer was taken", func() bool {
		q, err := question.Get.Call(t.Context(), f.client(), question.ID{ID: q.ID})
		return err == nil && !q.TakenAt.IsZero()
	})
}

// If two people answer at once, one answer counts, and the other person is told whose.
func TestTwoAnswers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	if id := f.wantAgentCode(0, "a", 1, "ask", "Really?", "--no-wait"); id != "q-1\n" {
		t.Fatalf("%q", id)
	}
	answers := []*childProcess{launch(t, f.dir, "answer", "q-1", "one"), launch(t, f.dir, "answer", "q-1", "two")}
	codes := []int{answers[0].exit(), answers[1].exit()}
	if codes[0]+codes[1] != 1 {
		t.Fatalf("exit codes %v: %s %s", codes, answers[0].err, answers[1].err)
	}
	loser, winner := answers[1], "one"
	if codes[0] == 1 {
		loser, winner = answers[0], "two"
	}
	if said := loser.err.String(); !strings.Contains(said, "q-1 was answered by") || !strings.Contains(said, fmt.Sprintf("%q", winner)) {
		t.Errorf("the second one is told: %s", said)
	}
	// The agent did not wait, so the answer comes by mail.
	if out := f.wantAgentCode(0, "a", 1, "mail", "inbox"); !strings.Contains(out, "Answer to q-1: Really?") {
		t.Errorf("%s", out)
	}
	if out := f.wantAgentCode(0, "a", 1, "mail", "read", "m-1"); !strings.Contains(out, winner) {
		t.Errorf("%s", out)
	}
	if id := f.wantAgentCode(0, "a", 1, "ask", "Really?", "--no-wait"); id != "q-2\n" {
		t.Errorf("what was read is asked again: %q", id)
	}
}

// A deadline that passes while no daemon runs is applied by the next one, and the waiting agent
// gets the default.
func TestDeadlineWithoutDaemon(t *testing.T) {
	t.Parallel()
	f := newFleet(t, asksTOML("a", `'Deploy now?' --options yes,no --default no --deadline 3s`))
	f.do("up", "-d")
	q := f.awaitQuestion(1)
	f.crash()
	time.Sleep(time.Until(q.Deadline) + 100*time.Millisecond) // no event announces this
	f.do("up", "-d")
	if got := f.awaitFile("answer.1"); got != "no\nexit code 0\n" {
		t.Errorf("the agent got %q", got)
	}
	if q, err := question.Get.Call(t.Context(), f.client(), question.ID{ID: q.ID}); err != nil || q.By != question.ByDeadline {
		t.Errorf("%+v, %v", q, err)
	}
	if out := f.wantCode(1, "answer", q.ID, "yes"); !strings.Contains(out, `got its default "no" at its deadline`) {
		t.Errorf("%s", out)
	}
}

// Mail survives SIGKILL of the daemon. Mail sent without a daemon waits for the next one.
func TestMailSurvives(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"), tokenKeeperTOML("b"))
	f.do("up", "-d")
	f.wantAgentCode(0, "a", 1, "mail", "send", "b", "-s", "first", "-m", "the text")
	f.crash()
	f.token("a", 1)
	waiting := f.asAgent("a", 1, "mail", "send", "t/b", "-m", "the second")
	f.do("up", "-d")
	waiting.wantExit(0)
	eventually(t, "both", func() bool { return strings.Count(f.wantAgentCode(0, "b", 1, "mail", "inbox"), "\n") == 3 })
	out := f.wantAgentCode(0, "b", 1, "mail", "read", "m-1", "m-2")
	for _, want := range []string{"from    t/a, incarnation 1", "subject first", "the text", "subject the second"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	f.crash()
	f.do("up", "-d")
	var all []mail.Message
	if err := json.Unmarshal([]byte(f.wantAgentCode(0, "b", 1, "mail", "inbox", "--json")), &all); err != nil || len(all) != 0 || all == nil {
		t.Errorf("%+v, %v", all, err)
	}
	f.wantAgentCode(0, "b", 1, "mail", "archive", "m-1")
	if out := f.wantAgentCode(0, "b", 1, "mail", "inbox", "--all"); !strings.Contains(out, "archived") || !strings.Contains(out, "read") {
		t.Errorf("%s", out)
	}
	f.wantAgentCode(0, "b", 1, "mail", "send", "--reply-to", "m-2", "-m", "thank you")
	if out := f.wantAgentCode(0, "a", 1, "mail", "inbox"); !strings.Contains(out, "Re: the second") {
		t.Errorf("%s", out)
	}
}

// Each incarnation is notified once of unread mail.
func TestMailDelivered(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	deliver := func(incarnation int, key string) string {
		t.Helper()
		c := api.DialAgent(socket, f.token("a", incarnation))
		defer c.Close()
		messages, err := mail.Deliver.Call(context.Background(), c, mail.DeliverRequest{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		var subjects []string
		for _, m := range messages {
			subjects = append(subjects, m.Subject)
		}
		return strings.Join(subjects, " ")
	}
	f.do("mail", "send", "a", "-s", "one", "-m", "")
	f.do("mail", "send", "a", "-s", "two", "-m", "")
	if got := deliver(1, "x"); got != "one two" {
		t.Errorf("first: %s", got)
	}
	if got := deliver(1, "x") + "/" + deliver(1, ""); got != "one two/" {
		t.Errorf("again: %s", got)
	}
	f.wantAgentCode(0, "a", 1, "mail", "read", "m-1")
	f.do("restart", "a")
	if got := deliver(2, "y"); got != "two" {
		t.Errorf("the successor: %s", got)
	}
	f.crash()
	f.do("up", "-d")
	if got := deliver(2, "z"); got != "" {
		t.Errorf("after the daemon was killed: %s", got)
	}
}

// An ended incarnation can send nothing, by any command.
func TestStaleMail(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	f.token("a", 1)
	f.do("restart", "a")
	for _, verb := range []string{
		"mail send people -m x", "mail inbox", "mail read m-1", "mail archive m-1", "ask x", "ask x --no-wait", "ask --status q-1", "ask --withdraw q-1",
	} {
		if out := f.wantAgentCode(exitAuth, "a", 1, strings.Fields(verb)...); !strings.Contains(out, "incarnation 1 of t/a") {
			t.Errorf("%s: %s", verb, out)
		}
	}
	if s := f.status(); s.Inbox != (status.Inbox{}) {
		t.Errorf("%+v", s.Inbox)
	}
}

// A process of an old incarnation cannot wait for an answer instead of the successor, who gets it
// by mail.
func TestStaleAsker(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	left := f.asAgent("a", 1, "ask", "Deploy?", "--options", "yes,no")
	q := f.awaitQuestion(1)
	eventually(t, "its wait", func() bool { v := f.node("t/a").Vitals; return v != nil && v.Waiting })
	f.do("restart", "a")
	left.wantExit(exitAuth)
	if out := left.err.String(); !strings.Contains(out, "incarnation 1 of t/a") {
		t.Errorf("%s", out)
	}
	f.do("answer", q.ID, "yes")
	if out := f.wantAgentCode(0, "a", 2, "mail", "inbox"); !strings.Contains(out, "Answer to q-1: Deploy?") {
		t.Errorf("the successor has the mail %q", out)
	}
}

// Each result has its exit code, and each mistake a helpful error.
func TestPeopleMistakes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	huge := filepath.Join(f.dir, "huge")
	write(t, huge, strings.Repeat("x", mail.MaxBody+1))
	for _, test := range []struct {
		code int
		args string
		want string
	}{
		{3, "answer q-99 yes", "no such question: q-99"},
		{3, "answer x yes", "expected one such as q-7"},
		{2, "answer", "coppice inbox lists them"},
		{3, "mail read m-99", "no such message"},
		{3, "mail archive x", "expected one such as m-7"},
		{2, "mail read", "mail ls lists them"},
		{3, "mail send b -m x", `there is no agent "b" in the file; did you mean "a"?`},
		{3, "mail send poeple -m x", `did you mean "people"?`},
		{2, "mail send t -m x", "t is a supervisor"},
		{2, "mail send -m x", "missing recipient"},
		{2, "mail send a b", "have to be quoted"},
		{2, "mail send a -m", "flag needs an argument"},
		{2, "mail send a -s " + strings.Repeat("s", 257) + " -m x", "257 bytes, at most 256"},
		{2, "mail", "Usage"},
	} {
		if test.args == "mail" {
			test.code = 0
		}
		if out := f.wantCode(test.code, strings.Fields(test.args)...); !strings.Contains(out, test.want) {
			t.Errorf("%s: %s, want %q", test.args, out, test.want)
		}
	}
	for _, test := range []struct {
		code int
		args []string
		want string
	}{
		{0, []string{"ask", "Really?", "--no-wait"}, "q-1"},
		{exitHuman, []string{"ask", "--status", "q-1"}, "q-1 is not answered yet"},
		{2, []string{"ask"}, "text of the question is missing"},
		{2, []string{"ask", "a", "b"}, "has to be quoted"},
		{2, []string{"ask", "x", "--status", "q-1"}, "next to the ID"},
		{2, []string{"ask", "--withdraw", "q-1", "--status", "q-1"}, "none of the others can be"},
		{2, []string{"ask", "x", "--default", "y"}, "no deadline"},
		{2, []string{"ask", "x", "--deadline=-1s"}, "has passed already"},
		{2, []string{"ask", "x", "--deadline=99999h"}, "deadline"},
		{2, []string{"ask", "x", "--options", "yes,no", "--default", "nope", "--deadline", "1h"}, `none of the options`},
		{2, []string{"ask", "x", "--options", "yes"}, "one option only"},
		{2, []string{"ask", strings.Repeat("x", question.MaxText+1)}, "16385 bytes, at most 16384"},
		{3, []string{"ask", "--status", "q-9"}, "no such question"},
		{exitTimeout, []string{"ask", "Quickly?", "--deadline", "10ms"}, "q-2 was not answered before its deadline"},
		{exitTimeout, []string{"ask", "--status", "q-2"}, "q-2 was not answered before its deadline"},
		{0, []string{"ask", "Slowly?", "--deadline", "10ms", "--option", "a, b", "--option", "c", "--default", "A, B"}, "a, b"},
		{0, []string{"ask", "--withdraw", "q-1"}, ""},
		{1, []string{"ask", "--status", "q-1"}, "was withdrawn"},
		{1, []string{"ask", "--withdraw", "q-1"}, "was withdrawn by t/"},
		{0, []string{"mail", "send", "human", "-m", "x"}, "sent to people"},
	} {
		if out := f.wantAgentCode(test.code, "a", 1, test.args...); !strings.Contains(out, test.want) {
			t.Errorf("%s: %s, want %q", test.args, out, test.want)
		}
	}
	// Texts from standard input.
	for file, want := range map[string]string{huge: "more than 65536 bytes", "/dev/zero": "more than 65536 bytes", "/dev/null": "neither a subject nor a body"} {
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		r := newCoppice(t, "mail", "send", "a")
		r.Stdin = in
		r.start(f.dir)
		r.wantExit(2)
		in.Close()
		if !strings.Contains(r.err.String(), want) {
			t.Errorf("%s: %s", file, r.err)
		}
	}
	// Outside of an agent.
	if out := f.wantCode(2, "agent", "ask", "x"); !strings.Contains(out, "not in an agent of coppice") {
		t.Errorf("%s", out)
	}
	if out := f.wantCode(0, "inbox", "--json"); !strings.HasPrefix(out, `{"mail":[{"id":"m-`) || !strings.Contains(out, `"questions":[]`) {
		t.Errorf("%s", out)
	}
	if out := f.wantCode(2, "answer", f.agentAsks("a", "Which?"), "", ""); !strings.Contains(out, "the answer is missing: coppice answer q-") {
		t.Errorf("%s", out)
	}
}

func (f *fleet) agentAsks(name, text string) string {
	f.t.Helper()
	return strings.TrimSpace(f.wantAgentCode(0, name, 1, "ask", text, "--no-wait"))
}

// Text of agents and people never reaches a terminal unescaped.
func TestHostileMail(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	const evil = "\x1b]0;title\x07\x1b[2J\u009b31mred\u202egnp.exe \x00\r\n\x1b[8mhidden\xff\xfe tail"
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	agent := api.DialAgent(socket, f.token("a", 1))
	defer agent.Close()
	ctx := t.Context()
	if _, err := mail.Send.Call(ctx, agent, mail.SendRequest{To: "people", Body: evil}); err != nil {
		t.Fatal(err)
	}
	if _, err := mail.Send.Call(ctx, agent, mail.SendRequest{To: "people", Subject: evil}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("a subject of several lines: %v", err)
	}
	if _, err := mail.Send.Call(ctx, agent, mail.SendRequest{To: evil, Subject: "x"}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("without a recipient: %v", err)
	}
	if _, err := mail.Send.Call(ctx, agent, mail.SendRequest{To: "a", Subject: "\u202egnp.exe", Body: evil}); err != nil {
		t.Fatal(err)
	}
	if _, err := question.Ask.Call(ctx, agent, question.AskRequest{Text: evil}); err != nil {
		t.Fatal(err)
	}
	if _, err := question.Answer.Call(ctx, f.client(), question.AnswerRequest{ID: "q-1", Answer: "free " + evil}); err != nil {
		t.Fatal(err)
	}
	if _, err := question.Ask.Call(ctx, agent, question.AskRequest{Text: "again " + evil, Options: []string{"\u202eyes", "no"}}); err != nil {
		t.Fatal(err)
	}
	check := func(what, out string) {
		t.Helper()
		for _, r := range out {
			if r != '\n' && hidden(r) {
				t.Errorf("%s shows %U: %q", what, r, out)
				return
			}
		}
		if !utf8.ValidString(out) {
			t.Errorf("%s is not UTF-8: %q", what, out)
		}
	}
	for _, args := range []string{
		"inbox", "inbox --json", "mail ls", "mail ls --json", "mail read m-1", "mail read m-1 --json", "ps", "tree", "status", "explain a", "explain a --json",
		"events", "events --json", "answer q-2 maybe", "answer q-2", "mail send \x1b[2J -m x", "answer \x1b[2J x", "answer q-1 x",
	} {
		out, _ := f.try(strings.Split(args, " ")...)
		check(args, out)
		if out == "" {
			t.Errorf("%s says nothing", args)
		}
	}
	check("read by the agent", f.wantAgentCode(0, "a", 1, "mail", "read", "m-2"))
	check("the answer", f.wantAgentCode(0, "a", 1, "ask", "--status", "q-1"))
	check("the answer in JSON", f.wantAgentCode(0, "a", 1, "ask", "--status", "q-1", "--json"))
	messages, err := mail.Read.Call(ctx, agent, mail.IDs{IDs: []string{"m-2"}})
	if err != nil || !strings.Contains(messages[0].Body, "\x1b[8mhidden\uFFFD") {
		t.Errorf("programs get what was written: %+v, %v", messages, err)
	}
}

// On a terminal the options are offered, and Ctrl-C gives no answer.
func TestAnswerOnTerminal(t *testing.T) {
	t.Parallel()
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	f.wantAgentCode(0, "a", 1, "ask", "Deploy now?", "--options", "yes,no", "--default", "no", "--deadline", "1h", "--no-wait")
	answerOn(t, f.dir, "\x03", 130, "")
	answerOn(t, f.dir, "\n", 2, "the answer is empty")
	answerOn(t, f.dir, "2\n", 0, "q-1 of t/a is answered: no")
}

func answerOn(t *testing.T, dir, typed string, code int, text string) {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	r := newCoppice(t, "answer", "q-1")
	r.Stdin, r.Stdout, r.Stderr = slave, slave, slave
	r.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	r.start(dir)
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(r.out, master)
	}()
	r.out.awaitText(t, "> ")
	for _, want := range []string{"t/a asks", "Deploy now?", "1  yes", "2  no", "without an answer in 59m"} {
		if !strings.Contains(r.out.String(), want) {
			t.Errorf("no %q in %s", want, r.out)
		}
	}
	if _, err := master.Write([]byte(typed)); err != nil {
		t.Fatal(err)
	}
	r.wantExit(code)
	slave.Close()
	r.out.awaitText(t, text)
	master.Close()
	<-read
}

// Wherever the daemon is killed, acknowledged mail and questions are there, and nothing is there
// twice although everything is retried.
func TestMailUnderKills(t *testing.T) {
	t.Parallel()
	detectRaces(t)
	f := newFleet(t, tokenKeeperTOML("a"))
	f.do("up", "-d")
	socket, err := endpoint.Path(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	token := f.token("a", 1)
	ctx, stop := context.WithCancel(t.Context())
	var sent, asked []string                                     // acknowledged
	ended, more := make(chan error, 1), make(chan struct{}, 100) // how far this may run ahead of the kills
	go func() {
		c := api.DialAgent(socket, token)
		defer c.Close()
		for n := 0; ctx.Err() == nil; n++ {
			key := fmt.Sprint("key ", n)
			err := api.Retry(context.Background(), waitTimeout, func() error {
				_, err := mail.Send.Call(context.Background(), c, mail.SendRequest{To: "a", Subject: key, Key: key})
				if err == nil && n%10 == 0 {
					_, err = question.Ask.Call(context.Background(), c, question.AskRequest{Text: key, Key: key})
				}
				return err
			})
			if err != nil {
				ended <- err
				return
			}
			if sent = append(sent, key); n%10 == 0 {
				asked = append(asked, key)
			}
			select {
			case more <- struct{}{}:
			case <-ctx.Done():
			}
		}
		ended <- nil
	}()
	for range 6 {
		for range 3 { // some must be acknowledged between two kills
			select {
			case <-more:
			case err := <-ended:
				t.Fatal("it has ended: ", err)
			case <-time.After(waitTimeout):
				t.Fatal("nothing is acknowledged")
			}
		}
		for len(more) > 0 { // let it continue while the daemon is killed
			<-more
		}
		f.crash()
		f.do("up", "-d")
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	c := api.DialAgent(socket, token)
	defer c.Close()
	messages, err := mail.List.Call(t.Context(), c, mail.ListRequest{All: true})
	if err != nil {
		t.Fatal(err)
	}
	questions, err := question.List.Call(t.Context(), f.client(), question.ListRequest{All: true})
	if err != nil {
		t.Fatal(err)
	}
	var gotSent, gotAsked []string
	for _, m := range messages {
		gotSent = append(gotSent, m.Subject)
	}
	for _, q := range questions {
		gotAsked = append(gotAsked, q.Text)
	}
	if strings.Join(gotSent, " ") != strings.Join(sent, " ") || strings.Join(gotAsked, " ") != strings.Join(asked, " ") {
		t.Errorf("%d messages and %d questions were acknowledged; there are\n%v\n%v", len(sent), len(asked), gotSent, gotAsked)
	}
	t.Logf("%d messages and %d questions over 6 kills", len(sent), len(asked))
	// The log has each of them once, too.
	if out := f.do("events", "--type", "mail.sent", "--type", "question.asked"); strings.Count(out, "\n") != len(sent)+len(asked) {
		t.Errorf("%d events for %d messages and %d questions", strings.Count(out, "\n"), len(sent), len(asked))
	}
}
