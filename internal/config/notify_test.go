package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coppice-dev/coppice/internal/spec"
)

func TestNotifyTables(t *testing.T) {
	tree, err := Parse("/f/coppice.toml", []byte(`
[[notify]]
name = "hook"
via = "webhook"
url = "https://example.com/x"
token_env = "HOOK_TOKEN"
header = "X-Api-Key"
secret_file = "keys/hook"
on = ["needs_input", "failing"]
digest = "0s"
[[notify]]
name = "phone"
via = "ntfy"
url = "http://127.0.0.1:1/topic"
priority = 4
tags = "robot"
click = "https://example.com"
quiet = "22:00-07:00"
urgent = "was_down"
report = "07:30"
[[notify]]
name = "team"
via = "slack"
url_env = "SLACK_URL"
on = "rejected"
digest = "1m"
[[notify]]
name = "post"
via = "mail"
host = "mail.example.com"
user = "me"
password_env = "MAIL_PASSWORD"
from = "Coppice <coppice@example.com>"
to = ["a@example.com", "b@example.com"]
tls = "tls"
[[notify]]
name = "here"
via = "desktop"
[[notify]]
name = "own"
via = "command"
command = "./tell now"
`+base))
	if err != nil {
		t.Fatal(err)
	}
	all, report := spec.DefaultNotifyKinds(), spec.Clock(7*60+30)
	expected := []spec.Notify{
		{Name: "hook", Via: spec.Webhook, URL: "https://example.com/x", Token: spec.Secret{Env: "HOOK_TOKEN"},
			Header: "X-Api-Key", Signature: spec.Secret{File: "/f/keys/hook"},
			On: []spec.NotifyKind{spec.NotifyInput, spec.NotifyFailing}},
		{Name: "phone", Via: spec.Ntfy, URL: "http://127.0.0.1:1/topic", Priority: 4, Tags: []string{"robot"},
			Click: "https://example.com", Quiet: spec.Hours{From: 22 * 60, To: 7 * 60}, Report: &report,
			Urgent: []spec.NotifyKind{spec.NotifyDown}, On: all, Digest: spec.DefaultDigest},
		{Name: "team", Via: spec.Slack, URLFrom: spec.Secret{Env: "SLACK_URL"},
			On: []spec.NotifyKind{spec.NotifyRejected}, Digest: time.Minute},
		{Name: "post", Via: spec.Mail, Host: "mail.example.com", Port: 465, TLS: "tls", User: "me",
			Token: spec.Secret{Env: "MAIL_PASSWORD"}, From: []string{`"Coppice" <coppice@example.com>`},
			To: []string{"<a@example.com>", "<b@example.com>"}, On: all, Digest: spec.DefaultDigest},
		{Name: "here", Via: spec.Desktop, On: all, Digest: spec.DefaultDigest},
		{Name: "own", Via: spec.Command, Command: []string{"./tell", "now"}, Dir: "/f",
			Timeout: spec.DefaultNotifyLimit, On: all, Digest: spec.DefaultDigest},
	}
	if diff := cmp.Diff(expected, tree.Notify); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestBadNotify(t *testing.T) {
	const name = "[[notify]]\nname = \"n\"\n"
	const hook = name + "via = \"webhook\"\nurl = \"https://example.com\"\n"
	const mail = name + "via = \"mail\"\n"
	for _, c := range []struct{ text, expected string }{
		{"[[notify]]\nvia = \"desktop\"\n", `1:3: [[notify]] without name, expected one (string)`},
		{name, `1:3: [[notify]] without via, expected one (webhook, ntfy, slack, mail, desktop, command)`},
		{name + "via = \"nfty\"\n", `3:7: via is "nfty", expected one of webhook, ntfy, slack, mail, desktop, command; ` +
			`did you mean "ntfy"?`},
		{name + "via = \"webhook\"\n", `1:3: [[notify]] via "webhook" without url or url_env or url_file, expected one`},
		{hook + hook, `6:8: the name "n" is taken by another [[notify]], expected another one (that is in f:1)`},
		{"[[notify]]\nname = \"a b\"\nvia = \"desktop\"\n",
			`2:8: the name "a b", expected letters, digits, dots, dashes and underscores`},
		{hook + "on = [\"needs_inptu\"]\n", `5:7: an element of on is "needs_inptu", expected one of needs_input, ` +
			`quarantined, given_up, paused, stopped, budget, quota, parked, rejected, store, was_down, failing, mail; ` +
			`did you mean "needs_input"?`},
		{hook + "on = []\n", `5:6: on is empty, expected one of needs_input`},
		{hook + "digest = \"25h\"\n", `5:10: digest is "25h", expected at most 24h`},
		{hook + "digest = 10\n", `5:10: digest is a number without a unit`},
		{hook + "quiet = \"22-7\"\n", `5:9: quiet: "22" is not a time of day, expected one such as "07:30"`},
		{hook + "quiet = \"22:00\"\n", `5:9: quiet is "22:00", expected hours such as "22:00-07:00"`},
		{hook + "quiet = \"22:00-22:00\"\n", `5:9: quiet is "22:00-22:00", expected hours such as "22:00-07:00"`},
		{hook + "quiet = \"22:00-24:00\"\n", `5:9: quiet: "24:00" is not a time of day`},
		{hook + "report = \"7:30\"\n", `5:10: report: "7:30" is not a time of day, expected one such as "07:30"`},
		{hook + "report = 730\n", `5:10: report is an integer, expected a time of day such as "07:30"`},
		{hook + "token = \"abc\"\n", `5:1: unknown key "token" in [[notify]]; did you mean "token_env"?`},
		{hook + "token_env = \"a-b.c\"\n", `5:13: token_env is not the name of a variable, expected letters, digits and ` +
			`underscores; the value belongs into the environment of the daemon`},
		{hook + "token_env = \"A\"\ntoken_file = \"a\"\n",
			`6:14: token_env and token_file, expected one of these; remove one of them`},
		{hook + "url_env = \"A\"\n", `5:11: url and url_env, expected one of these; remove one of them`},
		{hook + "priority = 4\n", `5:1: priority does not apply to via = "webhook", only to ntfy; remove it`},
		{hook + "header = \"a\\nb\"\ntoken_env = \"A\"\n",
			`5:10: header is "a\nb", expected the name of one, such as "X-Api-Key"`},
		{hook + "header = \"X-Key\"\n",
			`1:3: [[notify]] via "webhook" without token_env or token_file, expected one`},
		{name + "via = \"ntfy\"\nurl = \"example.com/t\"\n",
			`4:7: url is "example.com/t", expected a URL that begins with http:// or https://`},
		{name + "via = \"ntfy\"\nurl = \"https://me:secret@example.com/t\"\n", `4:7: url has a password, expected a URL ` +
			`without one; put the URL into a variable and name that with url_env`},
		{name + "via = \"ntfy\"\nurl = \"https://example.com/t\"\npriority = 6\n",
			`5:12: priority is 6, expected an integer from 1 to 5`},
		{name + "via = \"slack\"\nurl = \"https://hooks.slack.com/x\"\n", `4:1: url does not apply to via = "slack", only to ` +
			`webhook, ntfy; the URL of Slack is a secret: write url_env or url_file`},
		{mail, `1:3: [[notify]] via "mail" without host, expected one`},
		{mail, `1:3: [[notify]] via "mail" without to, expected one`},
		{mail + "host = \"h\"\nfrom = \"a@b.c\"\nto = \"me\"\n",
			`6:6: "me" is not an address, expected one such as "me@example.com"`},
		{mail + "host = \"h\"\nfrom = \"a@b.c\"\nto = \"a@b.c\"\nuser = \"u\"\n",
			`[[notify]] via "mail" without password_env or password_file, expected one`},
		{mail + "host = \"h\"\nfrom = \"a@b.c\"\nto = \"a@b.c\"\ntls = \"none\"\n",
			`7:7: tls is "none", expected that only for a host such as "localhost"`},
		{name + "via = \"command\"\n", `1:3: [[notify]] via "command" without command, expected one`},
		{name + "via = \"command\"\ncommand = \"a\"\ntimeout = \"11m\"\n", `5:11: timeout is "11m", expected at most 10m`},
		{strings.Repeat(hook, spec.MaxNotify+1), "there are 21 tables [[notify]], expected at most 20"},
	} {
		_, err := Parse("f", []byte(c.text+base))
		if got := errorText(err); !strings.Contains(got, c.expected) {
			t.Errorf("%s\n%s\nexpected %s", c.text, got, c.expected)
		}
		if strings.Contains(errorText(err), "secret@") {
			t.Errorf("an error shows a password: %v", err)
		}
	}
}

// A command that notifies people has to be there.
func TestNotifyCommand(t *testing.T) {
	text := "[[notify]]\nname = \"n\"\nvia = \"command\"\ncommand = \"./missing\"\n" + base
	_, err := load("f", t.TempDir(), []byte(text), nil, true)
	if got := errorText(err); !strings.Contains(got, "f:4:11: the command \"./missing\" of the notification \"n\"") {
		t.Errorf("%s", got)
	}
}

func TestHours(t *testing.T) {
	for _, c := range []struct {
		hours    spec.Hours
		at       spec.Clock
		contains bool
	}{
		{spec.Hours{}, 0, false},
		{spec.Hours{From: 22 * 60, To: 7 * 60}, 22 * 60, true},
		{spec.Hours{From: 22 * 60, To: 7 * 60}, 0, true},
		{spec.Hours{From: 22 * 60, To: 7 * 60}, 7*60 - 1, true},
		{spec.Hours{From: 22 * 60, To: 7 * 60}, 7 * 60, false},
		{spec.Hours{From: 22 * 60, To: 7 * 60}, 12 * 60, false},
		{spec.Hours{From: 9 * 60, To: 17 * 60}, 9 * 60, true},
		{spec.Hours{From: 9 * 60, To: 17 * 60}, 17 * 60, false},
	} {
		if c.hours.Contain(c.at) != c.contains {
			t.Errorf("%v contain %v: %v", c.hours, c.at, !c.contains)
		}
	}
}
