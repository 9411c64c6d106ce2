package main

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func noEnv(string) string { return "" }

func TestParseConfigDefaults(t *testing.T) {
	c, err := parseConfig(nil, func(string) string { t.Error("the environment is for -upstream only"); return "" })
	require.NoError(t, err)
	assert.Equal(t, config{listen: "127.0.0.1:8080", modelDelay: 30 * time.Millisecond, wait: 3 * time.Second, fallback: fallbackNone}, c)
}

func TestParseConfig(t *testing.T) {
	const up = "-upstream=http://localhost:1/v1"
	env := func(name string) string {
		if name == "OPENAI_API_KEY" {
			return " \"sk-env\"\n"
		}
		return ""
	}
	tests := []struct {
		args string
		got  func(config) any
		want any
	}{
		{"-redis=redis:6380", func(c config) any { return c.redis.Addr }, "redis:6380"},
		{"-redis=:6380", func(c config) any { return c.redis.Addr }, "localhost:6380"},
		{"-redis=redis://u:p@h:1/2", func(c config) any { return c.redis.Addr }, "h:1"},
		{"-redis=redis://u:p@h:1/2", func(c config) any { return c.redis.Password }, "p"},
		{"-redis=redis://u:p@h:1/2", func(c config) any { return c.redis.DB }, 2},
		{"-wait=0", func(c config) any { return c.wait }, time.Duration(0)},
		{"-wait 1m", func(c config) any { return c.wait }, time.Minute},
		{"-model-delay=0s", func(c config) any { return c.modelDelay }, time.Duration(0)},
		{"-fallback=none", func(c config) any { return c.fallback }, fallbackNone},
		{"-fallback local", func(c config) any { return c.fallback }, fallbackLocal},
		{"-fallback=open -redis=redis:6380", func(c config) any { return c.fallback }, fallbackOpen},
		{"-upstream=https://api.openai.com/v1", func(c config) any { return c.upstream.String() }, "https://api.openai.com/v1"},
		{"-upstream=http://h/a/v1//", func(c config) any { return c.upstream.String() }, "http://h/a/v1"},
		{up, func(c config) any { return c.apiKey }, "sk-env"},
		{up + " -api-key=", func(c config) any { return c.apiKey }, "sk-env"},
		{up + " -api-key='sk-flag'", func(c config) any { return c.apiKey }, "sk-flag"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			c, err := parseConfig(strings.Fields(tt.args), env)
			require.NoError(t, err)
			assert.Equal(t, tt.want, tt.got(c))
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	const up = "-upstream=http://localhost:1/v1"
	tests := []struct{ args, message string }{
		{"-nope", "flag provided but not defined: -nope"},
		{"extra", `unexpected argument "extra"`},
		{"-wait", "flag needs an argument: -wait"},
		{"-wait=3", `invalid value "3" for flag -wait: must be 0 or a duration such as 500ms or 3s`},
		{"-wait=-1s", `invalid value "-1s" for flag -wait: must be 0 or a duration such as 500ms or 3s`},
		{"-model-delay=fast", `invalid value "fast" for flag -model-delay: must be 0 or a duration such as 500ms or 3s`},
		{"-fallback=maybe", `invalid value "maybe" for flag -fallback: must be none, local or open`},
		{"-fallback=", `invalid value "" for flag -fallback: must be none, local or open`},
		{"-listen=8080", `-listen "8080": must be host:port, as in 127.0.0.1:8080`},
		{"-listen=:99999", `-listen ":99999": must be host:port, as in 127.0.0.1:8080`},
		{"-redis=", "-redis: must be host:port or a URL such as redis://:password@localhost:6379/0"},
		{"-redis=secret@h:1", "-redis: must be host:port or a URL such as redis://:password@localhost:6379/0"},
		{"-redis=redis://u:secret@h:x", "-redis: must be host:port or a URL such as redis://:password@localhost:6379/0"},
		{"-redis=http://h", "-redis: must be host:port or a URL such as redis://:password@localhost:6379/0: redis: invalid URL scheme: http"},
		{"-upstream=", "-upstream: must be a URL that ends in /v1, as in https://api.openai.com/v1"},
		{"-upstream=https://api.openai.com", "-upstream: must be a URL that ends in /v1, as in https://api.openai.com/v1"},
		{"-upstream=localhost:8080/v1", "-upstream: must be a URL that ends in /v1, as in https://api.openai.com/v1"},
		{"-upstream=http://h/v1?key=secret", "-upstream: must be a URL that ends in /v1, as in https://api.openai.com/v1"},
		{"-upstream=http://u:secret@h/v1", "-upstream: must not hold a password: there is -api-key"},
		{"-api-key=secret", "-api-key is the key for -upstream, which is not given"},
		{up + " -api-key=sécret", "the API key holds a space or another character that no key has: see -api-key and OPENAI_API_KEY"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			_, err := parseConfig(strings.Fields(tt.args), noEnv)
			require.EqualError(t, err, tt.message)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	for _, arg := range []string{"-h", "-help", "--help"} {
		_, err := parseConfig([]string{arg}, noEnv)
		require.ErrorIs(t, err, flag.ErrHelp)
	}
	for _, name := range []string{"-listen", "-redis", "-upstream", "-api-key", "-model-delay", "-wait", "-fallback", "OPENAI_API_KEY"} {
		assert.Contains(t, help, name)
	}
}
