package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever the prompt, an answer has 10 to 60 tokens, quotes user and prompt
// whole, and is the same the next time.
func TestAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		user := rapid.String().Draw(t, "user")
		prompt := rapid.OneOf(rapid.String(), rapid.StringMatching(`( {0,2}[a-z]{1,3}){0,200}\s?`)).Draw(t, "prompt")
		messages := []message{{Role: "system", Content: "be brief"}, {Role: "user", Content: "before"}, {Role: "user", Content: content(prompt)}, {Role: "assistant", Content: "yes"}}
		tokens := demoModel{}.answer(user, messages)
		text := strings.Join(tokens, "")
		require.GreaterOrEqual(t, len(tokens), 10)
		require.LessOrEqual(t, len(tokens), 60)
		require.Contains(t, text, user)
		require.Contains(t, text, "“"+prompt+"”")
		require.Contains(t, text, "message 2 of")
		require.Equal(t, tokens, demoModel{}.answer(user, messages))
	})
}

func TestWords(t *testing.T) {
	tests := []struct {
		text string
		n    int
		want []string
	}{
		{"", 5, nil},
		{" \t", 5, []string{" \t"}},
		{"one", 5, []string{"one"}},
		{"  one  two three ", 5, []string{"  one", "  two", " three "}},
		{"a b c d e", 2, []string{"a b", " c d e"}},
		{"über  Öl", 5, []string{"über", "  Öl"}},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, words(tt.text, tt.n), "%q", tt.text)
	}
}
