package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func fromEnviron(vars ...string) (Oracle, error) {
	return FromEnv(func(name string) (string, bool) {
		for _, v := range vars {
			if k, v, _ := strings.Cut(v, "="); k == name {
				return v, true
			}
		}
		return "", false
	})
}

func TestFromEnv(t *testing.T) {
	o, err := fromEnviron("SAGE_API_KEY=" + key + "\n")
	if err != nil {
		t.Fatal(err)
	}
	a := o.(checked).model.(*API)
	if a.URL != DefaultURL || a.Model != "gpt-4o-mini" || a.Retries != 3 || o.(checked).retries != 3 || a.Key.reveal() != key || a.Temperature != nil || a.MaxTokens != 0 {
		t.Errorf("%+v", a)
	}
	o, err = fromEnviron("SAGE_LLM_URL=http://127.0.0.1:11434/v1/", "SAGE_MODEL=qwen3:8b", "SAGE_INFER_RETRIES=0", "SAGE_TEMPERATURE=0.7", "SAGE_MAX_TOKENS=100", "SAGE_API_KEY= ")
	if err != nil {
		t.Fatal(err)
	}
	a = o.(checked).model.(*API)
	if a.Model != "qwen3:8b" || a.Retries != 0 || o.(checked).retries != 0 || a.Key.reveal() != "" || *a.Temperature != 0.7 || a.MaxTokens != 100 {
		t.Errorf("%+v", a)
	}
	if o, err := fromEnviron("SAGE_API_KEY=mock", "SAGE_LLM_URL=nonsense"); o != (Mock{}) || err != nil {
		t.Errorf("%T, %v", o, err)
	}
	if _, err := fromEnviron(); !errors.Is(err, ErrNotConfigured) || !strings.Contains(err.Error(), EnvKey) {
		t.Error(err)
	}
}

func TestFromEnvRefuses(t *testing.T) {
	for _, v := range []string{
		"SAGE_API_KEY=a b", "SAGE_API_KEY=k\x00ey", "SAGE_API_KEY=schlüssel", "SAGE_API_KEY=a\r\nX: y",
		"SAGE_LLM_URL=localhost:8080", "SAGE_LLM_URL=ftp://x", "SAGE_LLM_URL=https://", "SAGE_LLM_URL=https://:80", "SAGE_LLM_URL=://", "SAGE_LLM_URL=https://user:" + key + "@x/v1", "SAGE_LLM_URL=http://x/%zz" + key,
		"SAGE_MODEL=a\nb", "SAGE_MODEL=" + strings.Repeat("m", 201),
		"SAGE_INFER_RETRIES=-1", "SAGE_INFER_RETRIES=21", "SAGE_INFER_RETRIES=three", "SAGE_INFER_RETRIES=99999999999999999999", "SAGE_INFER_RETRIES=1.5",
		"SAGE_TEMPERATURE=-0.1", "SAGE_TEMPERATURE=2.1", "SAGE_TEMPERATURE=NaN", "SAGE_TEMPERATURE=inf", "SAGE_TEMPERATURE=0,7",
		"SAGE_MAX_TOKENS=0", "SAGE_MAX_TOKENS=-1", "SAGE_MAX_TOKENS=1e3", "SAGE_MAX_TOKENS=10000001",
	} {
		name, _, _ := strings.Cut(v, "=")
		vars := []string{v}
		if name != EnvKey {
			vars = append(vars, "SAGE_API_KEY="+key)
		}
		if _, err := fromEnviron(vars...); err == nil || !strings.HasPrefix(err.Error(), name) || strings.Contains(err.Error(), key) || errors.Is(err, ErrNotConfigured) {
			t.Errorf("%q: %v", v, err)
		}
	}
}

func TestEndpoint(t *testing.T) {
	for address, want := range map[string]string{
		"https://api.openai.com/v1":                "https://api.openai.com/v1/chat/completions",
		"http://localhost:1/v1/":                   "http://localhost:1/v1/chat/completions",
		"http://h":                                 "http://h/chat/completions",
		"https://h/v1/chat/completions":            "https://h/v1/chat/completions",
		"https://h/d/x/chat/completions?v=2024#no": "https://h/d/x/chat/completions?v=2024",
		"http://[::1]:8080/v1?v=2":                 "http://[::1]:8080/v1/chat/completions?v=2",
	} {
		if u, err := endpoint(address); err != nil || u.String() != want {
			t.Errorf("%s: %v, %v; want %s", address, u, err, want)
		}
	}
}

func TestSecretIsNotShown(t *testing.T) {
	s := NewSecret(key)
	a := &API{Key: s, Model: "m"}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", s, "api", a, "value", *a)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", s, "api", a)
	encoded, err := json.Marshal(map[string]any{"key": s, "url": a.URL})
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(encoded)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%T", "%10.3s", "%!"} {
		for _, v := range []any{s, &s, a, *a, checked{a, 1}, Checked(a, 1), []Secret{s}, struct{ redacted Secret }{s}, struct{ redacted API }{*a}} {
			all += fmt.Sprintf(verb, v)
		}
	}
	for _, leak := range []string{key, fmt.Sprintf("%x", key), fmt.Sprintf("%X", key), key[3:12]} {
		if strings.Contains(all, leak) {
			t.Errorf("%q is shown", leak)
		}
	}
	if NewSecret("").text != nil || s.redact("a "+key) != "a [secret]" || (Secret{}).redact("a") != "a" {
		t.Error("it is not hidden")
	}
}
