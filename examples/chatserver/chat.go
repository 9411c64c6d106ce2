package main

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// prepare makes the demo model a backend. It answers to any name, so that a
// client works with whatever model it is set up for.
func (m demoModel) prepare(body []byte) (http.HandlerFunc, *apiError) {
	req, problem := parseChatRequest(body)
	if problem != nil {
		return nil, problem
	}
	return func(w http.ResponseWriter, r *http.Request) {
		tokens := m.answer(displayName(r, req.User), req.Messages)
		a := completion{ID: "chatcmpl-" + rand.Text(), Created: time.Now().Unix(), Model: req.Model}
		finish := "stop"
		if limit := req.maxTokens(); limit != nil && *limit < len(tokens) {
			tokens, finish = tokens[:*limit], "length"
		}
		used := usage{Prompt: countWords(req.Messages), Completion: len(tokens)}
		used.Total = used.Prompt + used.Completion
		if req.Stream {
			m.streamAnswer(w, r, a, tokens, finish, used, req.StreamOptions.IncludeUsage)
		} else {
			m.wholeAnswer(w, r, a, tokens, finish, used)
		}
	}, nil
}

func (m demoModel) wholeAnswer(w http.ResponseWriter, r *http.Request, a completion, tokens []string, finish string, used usage) {
	var text strings.Builder
	for token, err := range m.stream(r.Context(), tokens) {
		if err != nil {
			writeStopped(w, r.Context())
			return
		}
		text.WriteString(token)
	}
	a.Object = "chat.completion"
	a.Choices = []choice{{Message: &delta{Role: "assistant", Content: new(text.String())}, FinishReason: &finish}}
	a.Usage = used.json()
	writeJSON(w, http.StatusOK, a)
}

func (m demoModel) streamAnswer(w http.ResponseWriter, r *http.Request, a completion, tokens []string, finish string, used usage, withUsage bool) {
	a.Object = "chat.completion.chunk"
	if withUsage {
		a.Usage = json.RawMessage("null") // in all chunks but the last one
	}
	events := startEvents(w)
	send := func(d delta, finish *string) {
		a.Choices = []choice{{Delta: &d, FinishReason: finish}}
		events.data(a)
	}
	send(delta{Role: "assistant", Content: new("")}, nil) // tells at once that the turn has come
	for token, err := range m.stream(r.Context(), tokens) {
		if err != nil {
			events.breakOff(whyCut(r.Context()))
		}
		send(delta{Content: &token}, nil)
	}
	send(delta{}, &finish)
	if withUsage {
		a.Choices, a.Usage = []choice{}, used.json()
		events.data(a)
	}
	events.done()
}

// A completion is an answer, or a chunk of one.
type completion struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Created int64           `json:"created"`
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage,omitempty"`
}

type choice struct {
	Index        int     `json:"index"`
	Message      *delta  `json:"message,omitempty"` // of an answer
	Delta        *delta  `json:"delta,omitempty"`   // of a chunk
	FinishReason *string `json:"finish_reason"`
}

type delta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

func (u usage) json() json.RawMessage {
	data, err := json.Marshal(u)
	if err != nil {
		panic(err) // integers only: cannot happen
	}
	return data
}

func (demoModel) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	writeJSON(w, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", []model{{demoModelName, "model", 1767225600, "reqlock"}}})
}
