package middleware

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// A DenyFunc writes the response to a request that is denied; where it writes
// nothing, that is the status alone. It is called concurrently, each time on the goroutine of its request and when that holds
// no lock (any more).
//
// The headers that clients rely on are set before it is called, so that it
// cannot forget them:
//
//   - Cache-Control: no-store;
//   - with 409, 429 and 503: Retry-After in whole seconds, rounded up, and the
//     more exact retry-after-ms, which OpenAI's clients prefer;
//   - with [Interrupted]: x-should-retry: false, so that those clients do not
//     repeat what somebody has just stopped.
//
// What a handler that was cut off had set to describe its own body is removed.
type DenyFunc func(http.ResponseWriter, *http.Request, Denial)

// ProblemJSON is the default [DenyFunc]. It writes problem details as RFC 9457
// has them, with the reason as an extension member:
//
//	{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"…","reason":"busy"}
//
// The type is about:blank since the reason says all there is to say; a title
// is then the status in words.
func ProblemJSON(w http.ResponseWriter, r *http.Request, d Denial) {
	writeJSON(w, r, d.Status, "application/problem+json", struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Reason Reason `json:"reason"`
	}{"about:blank", http.StatusText(d.Status), d.Status, d.Detail, d.Reason})
}

// OpenAIErrors is a [DenyFunc] that writes errors in the shape that OpenAI's
// clients read:
//
//	{"error":{"message":"…","type":"rate_limit_exceeded","param":null,"code":"session_busy"}}
//
// The code is session_busy for [Busy] and the reason itself for all others.
// The type is rate_limit_exceeded with status 429, conflict_error with 409,
// server_error with 5xx and invalid_request_error otherwise.
func OpenAIErrors(w http.ResponseWriter, r *http.Request, d Denial) {
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	code := string(d.Reason)
	if d.Reason == Busy {
		code = "session_busy"
	}
	kind := "invalid_request_error"
	switch {
	case d.Status == http.StatusTooManyRequests:
		kind = "rate_limit_exceeded"
	case d.Status == http.StatusConflict:
		kind = "conflict_error"
	case d.Status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	writeJSON(w, r, d.Status, "application/json", struct {
		Error body `json:"error"`
	}{body{Message: d.Detail, Type: kind, Code: code}})
}

func writeJSON(w http.ResponseWriter, r *http.Request, status int, contentType string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and integers only: cannot happen
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	if h.Get("Content-Encoding") == "" { // else it is not the length of what is sent
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may have gone
	}
}
