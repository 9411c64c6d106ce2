package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode"
)

const (
	demoModelName = "reqlock-demo"
	// What the prompt may take of an answer, which has at most 60 tokens.
	maxPromptTokens = 35
)

// demoModel is the built-in model: it says back what it was told, a word at a
// time, the same for the same request.
type demoModel struct {
	delay time.Duration // before each token
}

// answer returns the tokens of the answer to the last of the user's messages.
// They add up to a text that quotes the user's name and the whole message.
func (demoModel) answer(user string, messages []message) []string {
	var prompt string
	turns := 0
	for _, m := range messages {
		if m.Role == "user" {
			prompt = string(m.Content)
			turns++
		}
	}
	tokens := []string{"Hello", " " + user + ",", " you", " said", ": “"}
	tokens = append(tokens, words(prompt, maxPromptTokens)...)
	tokens = append(tokens, "”.")
	closing := fmt.Sprintf(" That was message %d of this conversation; I am a demo and only quote.", turns)
	return append(tokens, words(closing, len(closing))...)
}

// stream yields tokens at the model's pace. It ends early, with the cause,
// when ctx does.
func (m demoModel) stream(ctx context.Context, tokens []string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		tick := time.NewTimer(m.delay)
		defer tick.Stop()
		for _, token := range tokens {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
			if ctx.Err() != nil { // both may have been ready
				yield("", context.Cause(ctx))
				return
			}
			if !yield(token, nil) {
				return
			}
			tick.Reset(m.delay)
		}
	}
}

// words cuts s before its words into at most n pieces, and adds up to s again.
// A text of more words makes longer pieces.
func words(s string, n int) []string {
	var starts []int // of each word, with the spaces before it
	space := true
	from := 0
	for i, c := range s {
		switch {
		case unicode.IsSpace(c):
			if !space {
				from = i
			}
			space = true
		case space:
			starts = append(starts, from)
			space = false
		}
	}
	if len(starts) == 0 {
		if s == "" {
			return nil
		}
		return []string{s}
	}
	n = min(n, len(starts))
	pieces := make([]string, 0, n)
	for i := range n {
		end := len(s)
		if i < n-1 {
			end = starts[(i+1)*len(starts)/n]
		}
		pieces = append(pieces, s[starts[i*len(starts)/n]:end])
	}
	return pieces
}

// countWords is how prompts are counted for usage: about what a tokenizer
// makes of English.
func countWords(messages []message) int {
	n := 0
	for _, m := range messages {
		n += len(strings.Fields(string(m.Content)))
	}
	return n
}
