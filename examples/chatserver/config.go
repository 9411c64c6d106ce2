package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// config is what the command line says.
type config struct {
	listen     string
	redis      *redis.Options // nil: an embedded one
	upstream   *url.URL       // nil: the built-in model
	apiKey     string         // for upstream; "": none
	modelDelay time.Duration
	wait       time.Duration
	fallback   fallback
}

const help = `A chat server that answers each session's messages one at a time, however
many copies of it run. It speaks OpenAI's chat completions API.

  chatserver [flags]

  -listen host:port    where to serve (default 127.0.0.1:8080; port 0 picks one)
  -redis address       the Redis that holds the locks, as host:port or as a
                       redis:// URL. Servers with the same Redis act as one.
                       Without it an embedded one locks for this process only.
  -upstream URL        the OpenAI-compatible API that answers, up to its /v1, as
                       in https://api.openai.com/v1. Without it a built-in model
                       quotes what it is told.
  -api-key key         the key for -upstream (default: what the environment
                       variable OPENAI_API_KEY holds)
  -model-delay d       how long the built-in model takes for each token (default
                       30ms)
  -wait d              how long a message waits while another one of its session
                       is being answered, before it gets a 429 (default 3s; 0
                       rejects at once)
  -fallback what       what a message does while Redis cannot be reached (default
                       none). none: it is refused with a 503. local: this
                       server takes turns for its own messages only. open: it is
                       answered without taking turns.

One message at a time goes for a user's session. A message that is sent again
while an equal one waits or is answered here gets the same answer: the model runs
once. X-Reqlock in a response says leader, queued or joined.

  user     the header X-User-ID, else the bearer token, else "user" in the body,
           else everybody who comes from one address
  session  the header X-Session-ID, else "metadata.session_id" in the body, else
           "default"

Anybody can claim to be anybody here: this is an example. A real service takes
the user from its authentication, and refuses who has none.
`

// parseConfig reads the command line and, with -upstream only, the environment.
// The error is flag.ErrHelp where the usage was asked for; no error holds a
// password or an API key.
func parseConfig(args []string, getenv func(string) string) (config, error) {
	c := config{listen: "127.0.0.1:8080", modelDelay: 30 * time.Millisecond, wait: 3 * time.Second, fallback: fallbackNone}
	var redisAddr, upstream, apiKey string
	flags := flag.NewFlagSet("chatserver", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&c.listen, "listen", c.listen, "")
	flags.StringVar(&redisAddr, "redis", "", "")
	flags.StringVar(&upstream, "upstream", "", "")
	flags.StringVar(&apiKey, "api-key", "", "")
	flags.Func("model-delay", "", durationTo(&c.modelDelay))
	flags.Func("wait", "", durationTo(&c.wait))
	flags.Func("fallback", "", fallbackTo(&c.fallback))
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err := checkAddr(c.listen); err != nil {
		return config{}, fmt.Errorf("-listen %q: %w", c.listen, err)
	}

	// An empty value is not "none": a variable that a script left unset would
	// quietly give each pod a Redis of its own.
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var err error
	if given["redis"] {
		if c.redis, err = parseRedis(redisAddr); err != nil {
			return config{}, err
		}
	}
	if given["upstream"] {
		if c.upstream, err = parseUpstream(upstream); err != nil {
			return config{}, err
		}
		if c.apiKey, err = parseAPIKey(apiKey, getenv("OPENAI_API_KEY")); err != nil {
			return config{}, err
		}
	} else if given["api-key"] {
		return config{}, errors.New("-api-key is the key for -upstream, which is not given")
	}
	return c, nil
}

func durationTo(d *time.Duration) func(string) error {
	return func(s string) error {
		v, err := time.ParseDuration(s)
		if err != nil || v < 0 {
			return errors.New("must be 0 or a duration such as 500ms or 3s")
		}
		*d = v
		return nil
	}
}

func checkAddr(addr string) error {
	if _, _, err := splitHostPort(addr); err != nil {
		return errors.New("must be host:port, as in 127.0.0.1:8080")
	}
	return nil
}

func splitHostPort(addr string) (host, port string, err error) {
	if host, port, err = net.SplitHostPort(addr); err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return host, port, err
}

// parseRedis never repeats addr: it may hold a password, and net/url's errors
// hold the URL.
func parseRedis(addr string) (*redis.Options, error) {
	const must = "must be host:port or a URL such as redis://:password@localhost:6379/0"
	if !strings.Contains(addr, "://") {
		host, port, err := splitHostPort(addr)
		if err != nil || strings.Contains(host, "@") {
			return nil, errors.New("-redis: " + must)
		}
		return &redis.Options{Addr: net.JoinHostPort(cmp.Or(host, "localhost"), port)}, nil
	}
	o, err := redis.ParseURL(addr)
	if err != nil {
		if _, hasURL := errors.AsType[*url.Error](err); hasURL {
			return nil, errors.New("-redis: " + must)
		}
		return nil, fmt.Errorf("-redis: %s: %w", must, err)
	}
	return o, nil
}

func parseUpstream(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(s, "/"))
	switch {
	case err == nil && u.User != nil:
		return nil, errors.New("-upstream: must not hold a password: there is -api-key")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "",
		!strings.HasSuffix(u.Path, "/v1") || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("-upstream: must be a URL that ends in /v1, as in https://api.openai.com/v1")
	}
	return u, nil
}

// parseAPIKey returns the first key there is, without what comes along when one
// is copied out of a file or a web page. "" is no key, which local servers do
// not need.
func parseAPIKey(candidates ...string) (string, error) {
	for _, key := range candidates {
		key = strings.Trim(key, " \t\r\n\"'`“”‘’")
		if strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return "", errors.New("the API key holds a space or another character that no key has: see -api-key and OPENAI_API_KEY")
		}
		if key != "" {
			return key, nil
		}
	}
	return "", nil
}
