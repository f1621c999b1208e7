// Package notify reads [[notify]] and [deadman] of a coppice.toml: how people are told when they are needed.
package notify

import (
	"cmp"
	"net/mail"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/config/setting"
	"github.com/coppice-dev/coppice/internal/config/toml"
	"github.com/coppice-dev/coppice/internal/spec"
)

// Form is a [[notify]] while it is read.
type Form struct {
	spec.Notify
	Table *toml.Value
}

const secretDoc = "; it is read when a message is sent"

// Table describes [[notify]].
func Table() toml.Table[Form] {
	return toml.Table[Form]{
		Header: "[[notify]]",
		Doc: "A way by which people are told when they are needed. What is a secret is not in the file: it has a key " +
			"that ends with `_env`, which names a variable of the daemon's environment, and one that ends with " +
			"`_file`, which names a file. Changes apply at once. See [Notifications](notifications.md).",
		Example: `[[notify]]
name = "phone"
via = "ntfy"
url = "https://ntfy.sh/my-secret-topic"
quiet = "22:00-07:00"
urgent = ["was_down"]
`,
		Keys: slices.Concat(commonKeys(), webKeys(), otherKeys()),
	}
}

func commonKeys() []toml.Key[Form] {
	return []toml.Key[Form]{
		{Name: "name", Type: "string", Default: toml.Required, Doc: "unique among these tables: letters, digits, " +
			"dots, dashes and underscores", Also: []string{"id"},
			Read: toml.Text(func(n *Form) *string { return &n.Name })},
		{Name: "via", Type: joined(spec.Ways()), Default: toml.Required, Doc: "how people are told",
			Also: []string{"type", "kind", "by", "way", "service"},
			Read: toml.OneOf(words(spec.Ways()), func(n *Form, i int) { n.Via = spec.Ways()[i] })},
		{Name: "on", Type: "string or array of strings", Default: "all but `failing` and `mail`",
			Doc:  "what people are told of: " + quotedWords(spec.NotifyKinds()),
			Also: []string{"events", "kinds", "what", "when"},
			Read: kinds(func(n *Form) *[]spec.NotifyKind { return &n.On })},
		{Name: "urgent", Type: "string or array of strings", Default: "none",
			Doc:  "what does not wait for the end of `quiet`; the words are those of `on`",
			Also: []string{"always", "important", "critical"},
			Read: kinds(func(n *Form) *[]spec.NotifyKind { return &n.Urgent })},
		{Name: "digest", Type: toml.DurationOrZeroType, Default: "10s", Doc: "how long a message waits for more that " +
			"is sent with it, at most 24 hours", Also: []string{"delay", "batch", "group", "wait"},
			Read: func(r *toml.Reader, v *toml.Value, into *Form) {
				d, ok := r.DurationOrZero(v)
				if ok && d > spec.MaxDigest {
					r.Fail(v, "", "digest is %s, expected at most 24h", spec.Quote(v.Text))
				}
				into.Digest = d
			}},
		{Name: "quiet", Type: "string", Default: "never", Doc: "hours in which nothing is sent, such as " +
			"`\"22:00-07:00\"`, by the local clock. What is still there at their end is sent then",
			Also: []string{"quiet_hours", "silent", "do_not_disturb", "night"}, Read: readQuiet},
		{Name: "report", Type: "string", Default: "never", Doc: "the time of day at which the report of " +
			"`coppice report` is sent, such as `\"07:30\"`, by the local clock",
			Also: []string{"daily", "summary", "morning"},
			Read: func(r *toml.Reader, v *toml.Value, into *Form) {
				if c, ok := readClock(r, v, v.Text); ok {
					into.Report = &c
				}
			}},
	}
}

func webKeys() []toml.Key[Form] {
	return slices.Concat([]toml.Key[Form]{
		{Name: "url", Type: "string", Doc: "of a webhook, or of a topic of ntfy: `http://` or `https://`",
			Also: []string{"endpoint", "address", "topic", "webhook"},
			Read: setting.URL("url_env", func(n *Form) *string { return &n.URL })}},
		secretKeys("url", "the URL, where it is a secret; that of Slack is one",
			func(n *Form) *spec.Secret { return &n.URLFrom }),
		secretKeys("token", "the token of a webhook or of ntfy, sent as `Authorization: Bearer`",
			func(n *Form) *spec.Secret { return &n.Token }),
		[]toml.Key[Form]{{Name: "header", Type: "string", Default: "Authorization",
			Doc: "of a webhook: another header that has the token, without `Bearer`, such as `X-Api-Key`",
			Read: func(r *toml.Reader, v *toml.Value, into *Form) {
				name, ok := r.Text(v, "the name of a header")
				const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
				if ok && (len(name) > 100 || strings.Trim(name, letters) != "") {
					r.Fail(v, "", "header is %s, expected the name of one, such as \"X-Api-Key\"", spec.Quote(name))
				}
				into.Header = name
			}}},
		secretKeys("secret", "of a webhook: the key of the signature in `X-Coppice-Signature-256`",
			func(n *Form) *spec.Secret { return &n.Signature }),
		[]toml.Key[Form]{
			{Name: "priority", Type: "integer", Default: "that of the server",
				Doc:  "of ntfy: 1 (lowest) to 5 (highest)",
				Read: toml.Int(1, 5, func(n *Form) *int { return &n.Priority })},
			{Name: "tags", Type: "string or array of strings", Doc: "of ntfy", Also: []string{"tag"},
				Read: func(r *toml.Reader, v *toml.Value, into *Form) {
					for _, e := range r.Strings(v, "a tag") {
						into.Tags = append(into.Tags, e.Text)
					}
				}},
			{Name: "click", Type: "string", Doc: "of ntfy: the URL that is opened when the notification is tapped",
				Read: setting.URL("", func(n *Form) *string { return &n.Click })},
		})
}

func otherKeys() []toml.Key[Form] {
	return slices.Concat([]toml.Key[Form]{
		{Name: "host", Type: "string", Doc: "of mail: the SMTP server", Also: []string{"server", "smtp", "smarthost"},
			Read: toml.Text(func(n *Form) *string { return &n.Host })},
		{Name: "port", Type: "integer", Default: "587, or 465 with `tls = \"tls\"`, or 25 with `\"none\"`",
			Doc: "of mail", Read: toml.Int(1, 65535, func(n *Form) *int { return &n.Port })},
		{Name: "tls", Type: "starttls, tls, none", Default: "`\"starttls\"`", Doc: "of mail: how the connection is " +
			"encrypted; `none` only for a server on this machine", Also: []string{"ssl", "encryption", "security"},
			Read: toml.OneOf(tlsWords(), func(n *Form, i int) { n.TLS = tlsWords()[i] })},
		{Name: "user", Type: "string", Doc: "of mail: the name to log in with", Also: []string{"username", "login"},
			Read: toml.Text(func(n *Form) *string { return &n.User })}},
		secretKeys("password", "of mail", func(n *Form) *spec.Secret { return &n.Token }),
		[]toml.Key[Form]{
			{Name: "from", Type: "string", Doc: "of mail: the address of the sender", Also: []string{"sender"},
				Read: readAddresses(func(n *Form) *[]string { return &n.From })},
			{Name: "to", Type: "string or array of strings", Doc: "of mail: the addresses of the receivers",
				Also: []string{"recipients", "recipient", "address"},
				Read: readAddresses(func(n *Form) *[]string { return &n.To })},
			{Name: "command", Type: "string or array of strings", Doc: "a command that reads the message as JSON " +
				"from standard input. It runs in the directory of this file",
				Also: []string{"exec", "cmd", "run", "script"},
				Read: setting.CommandKey(func(n *Form) *[]string { return &n.Command })},
			{Name: "timeout", Type: "duration", Default: "30s", Doc: "how long `command` may take, at most 10 minutes",
				Read: func(r *toml.Reader, v *toml.Value, into *Form) {
					d, ok := r.Duration(v)
					if ok && d > 10*time.Minute {
						r.Fail(v, "", "timeout is %s, expected at most 10m", spec.Quote(v.Text))
					}
					into.Timeout = d
				}},
		})
}

func tlsWords() []string { return []string{"starttls", "tls", "none"} }

func words[S ~string](all []S) (text []string) {
	for _, w := range all {
		text = append(text, string(w))
	}
	return text
}

func joined[S ~string](all []S) string { return strings.Join(words(all), ", ") }

func quotedWords[S ~string](all []S) string { return "`" + strings.Join(words(all), "`, `") + "`" }

// secretKeys returns the keys that name the place of a secret.
func secretKeys[T any](name, doc string, field func(*T) *spec.Secret) []toml.Key[T] {
	return []toml.Key[T]{
		{Name: name + "_env", Type: "string", Doc: doc + ": the variable that has it" + secretDoc,
			Read: func(r *toml.Reader, v *toml.Value, into *T) {
				text, ok := r.Text(v, "the name of a variable")
				const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
				if ok && strings.Trim(text, letters) != "" { // the value would be in the file, and in this error
					r.Fail(v, "the value belongs into the environment of the daemon",
						"%s is not the name of a variable, expected letters, digits and underscores", r.Label(v))
				}
				field(into).Env = text
			}},
		{Name: name + "_file", Type: "string", Doc: doc + ": the file that has it" + secretDoc,
			Read: func(r *toml.Reader, v *toml.Value, into *T) {
				field(into).File, _ = r.Text(v, "a path")
			}},
	}
}

func kinds(field func(*Form) *[]spec.NotifyKind) func(*toml.Reader, *toml.Value, *Form) {
	return func(r *toml.Reader, v *toml.Value, into *Form) {
		known := words(spec.NotifyKinds())
		for _, e := range r.Strings(v, "one of "+strings.Join(known, ", ")) {
			toml.OneOf(known, func(n *Form, i int) {
				*field(n) = append(*field(n), spec.NotifyKinds()[i])
			})(r, e, into)
		}
	}
}

// readClock reads a time of day from a text, which is a value or a part of it.
func readClock(r *toml.Reader, v *toml.Value, text string) (spec.Clock, bool) {
	if !r.Want(v, toml.KindString, `a time of day such as "07:30"`) {
		return 0, false
	}
	c, err := spec.ParseClock(text)
	if err != nil {
		r.Fail(v, "", "%s: %v", r.Label(v), err)
	}
	return c, err == nil
}

func readQuiet(r *toml.Reader, v *toml.Value, into *Form) {
	const expected = `hours such as "22:00-07:00"`
	if !r.Want(v, toml.KindString, expected) {
		return
	}
	from, to, ok := strings.Cut(v.Text, "-")
	if !ok || strings.TrimSpace(from) == strings.TrimSpace(to) {
		r.Fail(v, "", "quiet is %s, expected %s", spec.Quote(v.Text), expected)
		return
	}
	if into.Quiet.From, ok = readClock(r, v, strings.TrimSpace(from)); ok {
		into.Quiet.To, _ = readClock(r, v, strings.TrimSpace(to))
	}
}

func readAddresses(field func(*Form) *[]string) func(*toml.Reader, *toml.Value, *Form) {
	return func(r *toml.Reader, v *toml.Value, into *Form) {
		for _, e := range r.Strings(v, "an address") {
			a, err := mail.ParseAddress(e.Text)
			if err != nil || strings.ContainsAny(e.Text, "\r\n") {
				r.Fail(e, "", "%s is not an address, expected one such as \"me@example.com\"", spec.Quote(e.Text))
				continue
			}
			*field(into) = append(*field(into), a.String())
		}
	}
}

// keysOf returns the keys of a [[notify]] that are not for all ways, by way.
func keysOf(via spec.Via) []string {
	url := []string{"url_env", "url_file"}
	switch via {
	case spec.Webhook:
		return append(url, "url", "token_env", "token_file", "header", "secret_env", "secret_file")
	case spec.Ntfy:
		return append(url, "url", "token_env", "token_file", "priority", "tags", "click")
	case spec.Slack:
		return url
	case spec.Mail:
		return []string{"host", "port", "tls", "user", "password_env", "password_file", "from", "to"}
	case spec.Command:
		return []string{"command", "timeout"}
	}
	return nil
}

// Finish checks the [[notify]] tables of a file in a directory, and returns them. find looks up commands; it is nil if
// that is not to be done.
func Finish(r *toml.Reader, forms []Form, dir string, find func(command string) error) (all []spec.Notify) {
	for i := range forms {
		n := &forms[i]
		if i == spec.MaxNotify {
			r.Fail(n.Table, "", "there are %d tables [[notify]], expected at most %d", len(forms), spec.MaxNotify)
			return all
		}
		for j := range i {
			if other := forms[j].Table; forms[j].Name == n.Name && n.Name != "" {
				r.Fail(n.Table.Find("name"), "", "the name %s is taken by another [[notify]], expected another one "+
					"(that is in %s:%d)", spec.Quote(n.Name), other.Source.Name, other.Line())
				break
			}
		}
		if wrong := cmp.Or(spec.CheckName(n.Name), spec.CheckPlainName(n.Name)); n.Name != "" && wrong != "" {
			r.Fail(n.Table.Find("name"), "", "%s", wrong)
		}
		if n.Via != "" && !r.IsFaulty(n.Table) {
			n.check(r)
		}
		n.resolve(dir)
		if at := n.Table.Field("command"); find != nil && len(n.Command) > 0 && !r.IsFaulty(at) {
			if err := find(n.Command[0]); err != nil {
				r.Fail(at, "check the path, and whether it is executable", "the command %s of the notification %s "+
					"cannot be run: %v", spec.Quote(n.Command[0]), spec.Quote(n.Name), toml.Reason(err))
			}
		}
		all = append(all, n.Notify)
	}
	return all
}

// check reports keys that are missing, too many, or for another way.
func (n *Form) check(r *toml.Reader) {
	uses := keysOf(n.Via)
	for _, field := range n.Table.Fields {
		known := func(via spec.Via) bool { return slices.Contains(keysOf(via), field.Name) }
		if others := slices.DeleteFunc(spec.Ways(), func(v spec.Via) bool { return !known(v) }); len(others) > 0 &&
			!known(n.Via) {
			hint := "remove it"
			if n.Via == spec.Slack && field.Name == "url" {
				hint = "the URL of Slack is a secret: write url_env or url_file"
			}
			r.FailKey(field, hint, "%s does not apply to via = \"%s\", only to %s", field.Name, n.Via, joined(others))
		}
	}
	for _, name := range []string{"url", "token", "secret", "password"} {
		var given []string
		for _, key := range []string{name, name + "_env", name + "_file"} {
			if n.Table.Field(key) != nil && slices.Contains(uses, key) {
				given = append(given, key)
			}
		}
		if len(given) > 1 {
			r.Fail(n.Table.Field(given[1]), "remove one of them", "%s, expected one of these",
				strings.Join(given, " and "))
		}
	}
	need := func(keys ...string) {
		for _, key := range keys {
			if n.Table.Field(key) != nil {
				return
			}
		}
		r.Fail(n.Table, "", "[[notify]] via \"%s\" without %s, expected one", n.Via, strings.Join(keys, " or "))
	}
	switch n.Via {
	case spec.Webhook, spec.Ntfy:
		need("url", "url_env", "url_file")
	case spec.Slack:
		need("url_env", "url_file")
	case spec.Mail:
		need("host")
		need("from")
		need("to")
		if n.User != "" {
			need("password_env", "password_file")
		}
		if n.TLS == "none" && n.Host != "localhost" && !isLoopback(n.Host) {
			r.Fail(n.Table.Field("tls"), "", "tls is \"none\", expected that only for a host such as \"localhost\"")
		}
		if len(n.From) > 1 {
			r.Fail(n.Table.Field("from"), "", "from has %d addresses, expected one", len(n.From))
		}
	case spec.Command:
		need("command")
	}
	if n.Header != "" && !n.Token.IsSet() {
		need("token_env", "token_file")
	}
	if len(n.Urgent) > 0 && n.Quiet == (spec.Hours{}) && n.Table.Field("quiet") == nil {
		r.Notice(n.Table.Field("urgent"), "urgent has no effect without quiet")
	}
}

// isLoopback reports whether a host is an address of this machine.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// resolve fills in defaults, and makes paths absolute.
func (n *Form) resolve(dir string) {
	if n.Table.Field("on") == nil {
		n.On = spec.DefaultNotifyKinds()
	}
	if n.Table.Field("digest") == nil {
		n.Digest = spec.DefaultDigest
	}
	for _, s := range []*spec.Secret{&n.URLFrom, &n.Token, &n.Signature} {
		if s.File != "" {
			s.File = toml.Absolute(dir, s.File)
		}
	}
	switch n.Via {
	case spec.Mail:
		n.TLS = cmp.Or(n.TLS, "starttls")
		n.Port = cmp.Or(n.Port, map[string]int{"starttls": 587, "tls": 465, "none": 25}[n.TLS])
	case spec.Command:
		n.Dir, n.Timeout = dir, cmp.Or(n.Timeout, spec.DefaultNotifyLimit)
	}
}
