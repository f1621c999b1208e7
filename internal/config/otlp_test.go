package config

import (
	"strings"
	"testing"
)

func TestOTLP(t *testing.T) {
	const base = "[[agent]]\nname = \"a\"\ncommand = [\"sleep\", \"1000\"]\n"
	for text, listen := range map[string]string{
		"": "", "[otlp]\n": "", "[otlp]\nlisten = \"127.0.0.1:4318\"\n": "127.0.0.1:4318",
		"[otlp]\nlisten = \"[::1]:4318\"\n": "[::1]:4318", "[otlp]\nlisten = \"127.0.0.2:1\"\n": "127.0.0.2:1",
	} {
		tree, err := Parse("coppice.toml", []byte(base+text))
		if err != nil || tree.OTLP.Listen != listen {
			t.Errorf("%q: %v, %v", text, tree, err)
		}
	}
	for _, value := range []string{
		`"0.0.0.0:4318"`, `"192.0.2.1:4318"`, `":4318"`, `"localhost"`, `"127.0.0.1:0"`, `"127.0.0.1"`,
		`"127.0.0.1:70000"`, `"http://127.0.0.1:4318"`, `""`, `4318`,
	} {
		_, err := Parse("coppice.toml", []byte(base+"[otlp]\nlisten = "+value+"\n"))
		if err == nil || !strings.Contains(err.Error(), "coppice.toml:5:10: listen is ") ||
			!strings.Contains(err.Error(), `expected a loopback address with a port, such as "127.0.0.1:4318"`) {
			t.Errorf("%s: %v", value, err)
		}
	}
}
