package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/reqlock/reqlock/keyfuncs"
)

const (
	maxBody     = keyfuncs.MaxBody // as much as a key in the body may have around it
	bodyTimeout = 30 * time.Second
)

// A backend is what answers: the built-in model or an upstream.
type backend interface {
	// prepare checks a chat request before it waits for its turn. answer is
	// what its turn is for.
	prepare(body []byte) (answer http.HandlerFunc, err *apiError)
	models(w http.ResponseWriter, r *http.Request)
}

const answerKey = "answer" // in the gin.Context

// prepare reads the request and has the backend look at it, before the lock:
// what is wrong is refused without a wait, and a slow upload keeps no session
// busy.
func prepare(b backend) gin.HandlerFunc {
	return func(c *gin.Context) {
		body, problem := readBody(c.Writer, c.Request)
		if problem == nil {
			var answer http.HandlerFunc
			if answer, problem = b.prepare(body); problem == nil {
				// For the key, and to find equal requests: not all say how long
				// they are, and only of those that do the guard reads the body.
				c.Request.Body = io.NopCloser(bytes.NewReader(body))
				c.Request.ContentLength = int64(len(body))
				c.Set(answerKey, answer)
				return
			}
		}
		writeError(c.Writer, problem)
		c.Abort()
	}
}

func answer(c *gin.Context) {
	ctx, cancel := untilShutdown(c.Request.Context())
	defer cancel()
	c.MustGet(answerKey).(http.HandlerFunc)(c.Writer, c.Request.WithContext(ctx))
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *apiError) {
	// Not the server's ReadTimeout: that would end long answers, too.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = rc.SetReadDeadline(time.Time{})
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &apiError{status: http.StatusRequestEntityTooLarge, message: "The request is larger than 1 MiB.", code: "body_too_large"}
	}
	if err != nil {
		return nil, &apiError{status: http.StatusRequestTimeout, message: "The request did not arrive in time."}
	}
	if !json.Valid(body) || !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return nil, &apiError{status: http.StatusBadRequest, message: "The body of the request is not a valid JSON object."}
	}
	return body, nil
}

// chatRequest has what the built-in model understands of a request.
type chatRequest struct {
	Model         string    `json:"model"`
	Messages      []message `json:"messages"`
	User          string    `json:"user"`
	Stream        bool      `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	N                   *int `json:"n"`
	MaxTokens           *int `json:"max_tokens"` // the older name of the next
	MaxCompletionTokens *int `json:"max_completion_tokens"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is the text of a message, which comes as a string, as a list of
// parts, or as null.
type content string

func (c *content) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("[")) {
		var parts []struct {
			Text string `json:"text"` // "" for images and the like
		}
		if err := json.Unmarshal(data, &parts); err != nil {
			return err
		}
		var text strings.Builder
		for _, p := range parts {
			text.WriteString(p.Text)
		}
		*c = content(text.String())
		return nil
	}
	return json.Unmarshal(data, (*string)(c))
}

func parseChatRequest(body []byte) (*chatRequest, *apiError) {
	invalid := func(param, message string) (*chatRequest, *apiError) {
		return nil, &apiError{status: http.StatusBadRequest, message: message, param: param}
	}
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil {
		param := ""
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			param = e.Field
		}
		return invalid(param, "A field of the request has the wrong type.")
	}
	limit := req.maxTokens()
	switch {
	case req.Model == "":
		return invalid("model", "The request names no model.")
	case len(req.Messages) == 0:
		return invalid("messages", "The request has no messages.")
	case req.N != nil && *req.N != 1:
		return invalid("n", "This model gives one answer: n must be 1.")
	case limit != nil && *limit < 1:
		return invalid("max_completion_tokens", "An answer has at least one token.")
	}
	return &req, nil
}

func (r *chatRequest) maxTokens() *int {
	if r.MaxCompletionTokens != nil {
		return r.MaxCompletionTokens
	}
	return r.MaxTokens
}
