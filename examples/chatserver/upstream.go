package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

const (
	dialTimeout = 5 * time.Second
	// An answer that is not streamed begins when it is complete. OpenAI's own
	// clients wait this long.
	headerTimeout = 10 * time.Minute
	maxAnswer     = 16 << 20 // of one that is not streamed
)

// upstream passes requests on to another OpenAI-compatible API. It repeats
// none: a lost one may have been answered, and paid for.
type upstream struct {
	base   *url.URL
	apiKey string
	client *http.Client
}

func newUpstream(base *url.URL, apiKey string) *upstream {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	t.TLSHandshakeTimeout = dialTimeout
	t.ResponseHeaderTimeout = headerTimeout
	t.MaxIdleConnsPerHost = t.MaxIdleConns
	t.DisableCompression = true // it would collect the tokens of a stream
	return &upstream{base: base, apiKey: apiKey, client: &http.Client{
		Transport: t,
		// A redirect is not an API's answer, and the key is for this host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// prepare checks nothing: what a request may say is for the upstream to know.
func (u *upstream) prepare(body []byte) (http.HandlerFunc, *apiError) {
	return func(w http.ResponseWriter, r *http.Request) {
		u.forward(w, r, "chat/completions", body)
	}, nil
}

func (u *upstream) models(w http.ResponseWriter, r *http.Request) {
	u.forward(w, r, "models", nil)
}

func (u *upstream) forward(w http.ResponseWriter, r *http.Request, path string, body []byte) {
	resp, err := u.client.Do(u.request(r, path, body))
	if err != nil {
		u.failed(w, r.Context(), err)
		return
	}
	defer resp.Body.Close()
	copyHeaders(w.Header(), resp.Header)
	if resp.StatusCode < 300 && isEventStream(resp.Header) {
		forwardEvents(w, r, resp.Body)
		return
	}
	// In one piece, so that an answer that breaks off can still be an error.
	answer, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxAnswer))
	switch {
	case err != nil:
		u.failed(w, r.Context(), err)
	case resp.StatusCode >= 300:
		u.refused(w, resp, answer)
	default:
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(answer)
	}
}

// request is made with the context of the lease: it ends with the lease, and
// when the client leaves.
func (u *upstream) request(r *http.Request, path string, body []byte) *http.Request {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, u.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		panic(err) // both have been parsed before: cannot happen
	}
	for _, name := range []string{"Accept", userHeader, sessionHeader} {
		for _, value := range r.Header.Values(name) {
			out.Header.Add(name, value)
		}
	}
	if len(body) > 0 {
		out.Header.Set("Content-Type", "application/json") // as it is, whatever the client calls it
	}
	if u.apiKey != "" {
		out.Header.Set("Authorization", "Bearer "+u.apiKey)
	}
	return out
}

// failed answers where the upstream did not, or not to the end.
func (u *upstream) failed(w http.ResponseWriter, ctx context.Context, err error) {
	if ctx.Err() != nil {
		writeStopped(w, ctx)
		return
	}
	slog.Error("the upstream does not answer", "err", err)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		writeError(w, &apiError{status: http.StatusGatewayTimeout, message: "The upstream did not answer in time.", code: "upstream_timeout"})
		return
	}
	writeError(w, &apiError{status: http.StatusBadGateway, message: "The upstream cannot be reached.", code: "upstream_unreachable"})
}

// refused passes an error on. What does not look like one of OpenAI's, a
// proxy's page say, would mean nothing to the client's library.
func (u *upstream) refused(w http.ResponseWriter, resp *http.Response, body []byte) {
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		u.keyRefused(w)
		return
	case gjson.ValidBytes(body) && gjson.GetBytes(body, "error").IsObject():
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(body)
		return
	}
	slog.Error("the upstream's answer is none of an OpenAI-compatible API", "status", resp.Status)
	status := resp.StatusCode
	if status < 400 {
		status = http.StatusBadGateway
	}
	writeError(w, &apiError{status: status, message: "The upstream failed with " + resp.Status + ".", code: "upstream_failed"})
}

// keyRefused explains a 401, which the client would otherwise take for its own
// key's.
func (u *upstream) keyRefused(w http.ResponseWriter) {
	why := "The upstream refused the API key that this server was started with. It comes from -api-key or OPENAI_API_KEY; yours is not passed on."
	if u.apiKey == "" {
		why = "The upstream wants an API key, and this server was started without one: see -api-key and OPENAI_API_KEY. Yours is not passed on."
	}
	slog.Error("the upstream refused the API key (-api-key, OPENAI_API_KEY)", "given", u.apiKey != "")
	w.Header().Set("X-Should-Retry", "false")
	writeError(w, &apiError{status: http.StatusUnauthorized, message: why, code: "invalid_api_key"})
}

func isEventStream(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
}

// copyHeaders takes over what OpenAI's clients read; the rest is between this
// server and the upstream.
func copyHeaders(to, from http.Header) {
	for name, values := range from {
		switch name {
		case "Content-Type", "Retry-After", "Retry-After-Ms", "X-Should-Retry", "X-Request-Id":
		default:
			if !strings.HasPrefix(name, "X-Ratelimit-") && !strings.HasPrefix(name, "Openai-") {
				continue
			}
		}
		to[name] = slices.Clone(values)
	}
}
