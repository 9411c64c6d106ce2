package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The official client, as it is, talks to a server with the built-in model and
// to one in front of that.
func TestOpenAIClient(t *testing.T) {
	direct := startPod(t, "-model-delay", "1ms")
	chained := startPod(t, "-upstream", direct.url+"/v1", "-api-key", "sk-test")
	for name, p := range map[string]*pod{"direct": direct, "through another": chained} {
		t.Run(name, func(t *testing.T) {
			client := newOpenAI(t, p)
			t.Run("chats", func(t *testing.T) { testClientChats(t, client) })
			t.Run("streams", func(t *testing.T) { testClientStreams(t, client) })
			t.Run("lists models", func(t *testing.T) {
				models, err := client.Models.List(t.Context())
				require.NoError(t, err)
				require.Len(t, models.Data, 1)
				assert.Equal(t, demoModelName, models.Data[0].ID)
			})
			t.Run("sees errors", func(t *testing.T) {
				_, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "m"})
				var apiErr *openai.Error
				require.ErrorAs(t, err, &apiErr)
				assert.Equal(t, http.StatusBadRequest, apiErr.StatusCode)
				assert.Equal(t, "invalid_request_error", apiErr.Type)
				assert.Equal(t, "messages", apiErr.Param)
			})
		})
	}
}

func testClientChats(t *testing.T, client openai.Client) {
	answer, err := client.Chat.Completions.New(t.Context(), goodMorning)
	require.NoError(t, err)
	require.Len(t, answer.Choices, 1)
	assert.Contains(t, answer.Choices[0].Message.Content, "Hello alice, you said: “good morning”.")
	assert.Equal(t, "stop", answer.Choices[0].FinishReason)
	assert.EqualValues(t, 2, answer.Usage.PromptTokens)
	assert.Positive(t, answer.Usage.CompletionTokens)
}

func testClientStreams(t *testing.T, client openai.Client) {
	params := goodMorning
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	defer stream.Close()
	var answer openai.ChatCompletionAccumulator
	for stream.Next() {
		require.True(t, answer.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	require.Len(t, answer.Choices, 1)
	assert.Contains(t, answer.Choices[0].Message.Content, "Hello alice, you said: “good morning”.")
	assert.Equal(t, "stop", answer.Choices[0].FinishReason)
	assert.Positive(t, answer.Usage.CompletionTokens)
}

// Two official clients that ask for the same at once get one answer.
func TestOpenAIClientJoins(t *testing.T) {
	for _, through := range []bool{false, true} {
		model := newMeteredModel()
		var b backend = model
		if through {
			b = upstreamAt(t, serveTest(t, model), "sk-ours")
		}
		p := &pod{url: startServer(t, b, time.Minute)}
		type answer struct {
			id, text string
			err      error
		}
		ask := map[string]func(openai.Client) answer{
			"chat": func(client openai.Client) answer {
				got, err := client.Chat.Completions.New(t.Context(), goodMorning)
				if err != nil {
					return answer{err: err}
				}
				return answer{got.ID, got.Choices[0].Message.Content, nil}
			},
			"stream": func(client openai.Client) answer {
				stream := client.Chat.Completions.NewStreaming(t.Context(), goodMorning)
				defer stream.Close()
				var all openai.ChatCompletionAccumulator
				for stream.Next() {
					all.AddChunk(stream.Current())
				}
				if err := stream.Err(); err != nil {
					return answer{err: err}
				}
				return answer{all.ID, all.Choices[0].Message.Content, nil}
			},
		}
		for name, ask := range ask {
			model.let = make(chan struct{})
			model.runs.Store(0)
			answers := make(chan answer, 2)
			for range 2 {
				client := newOpenAI(t, p)
				go func() { answers <- ask(client) }()
			}
			requireFollowers(t, 1)
			close(model.let)
			first, second := receive(t, answers), receive(t, answers)
			require.NoError(t, first.err, name)
			assert.Contains(t, first.text, "Hello alice, you said: “good morning”.")
			assert.NotEmpty(t, first.id)
			assert.Equal(t, first, second, name)
			assert.EqualValues(t, 1, model.runs.Load(), name)
		}
	}
}

// A28: each token reaches the client before the next one exists, through two
// servers.
func TestOpenAIClientSeesTokensOneByOne(t *testing.T) {
	next := make(chan string)
	up := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		events := startEvents(w)
		for {
			select {
			case token, more := <-next:
				if !more {
					events.done()
					return
				}
				events.data(completion{Choices: []choice{{Delta: &delta{Content: &token}}}})
			case <-r.Context().Done():
				return
			}
		}
	}))
	inner := startPod(t, "-upstream", up+"/v1")
	outer := startPod(t, "-upstream", inner.url+"/v1")
	client := newOpenAI(t, outer)
	stream := client.Chat.Completions.NewStreaming(t.Context(), goodMorning)
	defer stream.Close()
	for _, token := range []string{"good", " morning", " to", " you"} {
		next <- token
		require.True(t, stream.Next())
		require.Equal(t, token, stream.Current().Choices[0].Delta.Content)
	}
	close(next)
	require.False(t, stream.Next())
	require.NoError(t, stream.Err())
}

// The same for the built-in model, which nobody can hold up: it makes a token
// at each tick, so tokens that were held back would come closer together.
func TestOpenAIClientSeesBuiltInTokensOneByOne(t *testing.T) {
	const tick = 20 * time.Millisecond
	client := newOpenAI(t, startPod(t, "-model-delay", tick.String()))
	stream := client.Chat.Completions.NewStreaming(t.Context(), goodMorning)
	defer stream.Close()
	var first time.Time
	ticks := 0
	for stream.Next() {
		if stream.Current().Choices[0].Delta.Content != "" {
			if ticks++; ticks == 1 {
				first = time.Now()
			}
		}
	}
	require.NoError(t, stream.Err())
	require.GreaterOrEqual(t, ticks, 10)
	assert.Greater(t, time.Since(first), time.Duration(ticks/2)*tick)
}

func newOpenAI(t *testing.T, p *pod) openai.Client {
	return openai.NewClient(
		option.WithBaseURL(p.url+"/v1"),
		option.WithAPIKey("sk-test"),
		option.WithHTTPClient(newClient(t)),
		option.WithHeader("X-User-ID", "alice"))
}

var goodMorning = openai.ChatCompletionNewParams{
	Model:    "gpt-4o",
	Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("good morning")},
}
