package main

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/middleware/lock"
)

func TestOutage(t *testing.T) {
	type step struct {
		after time.Duration
		event lock.Event // nil: none
		want  status
	}
	const none = fallbackNone
	ok := status{"ok", 0, none}
	failed, recovered := lock.BackendFailed{Err: lock.ErrUnavailable}, lock.BackendRecovered{}
	kept := func(d time.Duration) lock.Event { return lock.KeptBack{For: d} }
	tests := []struct {
		name  string
		steps []step
	}{
		{"all is well", []step{{0, nil, ok}, {time.Hour, nil, ok}}},
		{"others' events", []step{{0, lock.Lost{}, ok}, {0, lock.Degraded{}, ok}}},
		{"away and back", []step{
			{time.Hour, failed, status{"away", 0, none}},
			{999 * time.Millisecond, nil, status{"away", 0, none}},
			{11*time.Second + time.Millisecond, nil, status{"away", 12, none}},
			{0, recovered, ok},
			{time.Hour, failed, status{"away", 0, none}},
		}},
		{"two servers", []step{
			{0, failed, status{"away", 0, none}},
			{time.Second, failed, status{"away", 1, none}},
			{time.Second, recovered, status{"away", 2, none}},
			{0, recovered, ok},
		}},
		{"the end of one outage comes after the start of the next", []step{
			{0, failed, status{"away", 0, none}},
			{time.Second, failed, status{"away", 1, none}},
			{0, recovered, status{"away", 1, none}},
			{0, recovered, ok},
		}},
		{"kept back", []step{
			{0, kept(8 * time.Second), status{"kept_back", 8, none}},
			{7500 * time.Millisecond, nil, status{"kept_back", 1, none}},
			{500 * time.Millisecond, nil, ok},
		}},
		{"kept back for longer, and not for less", []step{
			{0, kept(8 * time.Second), status{"kept_back", 8, none}},
			{0, kept(9 * time.Second), status{"kept_back", 9, none}},
			{0, kept(time.Second), status{"kept_back", 9, none}},
		}},
		{"away is what matters, until it is over", []step{
			{0, failed, status{"away", 0, none}},
			{time.Second, kept(8 * time.Second), status{"away", 1, none}},
			{time.Second, recovered, status{"kept_back", 7, none}},
			{time.Second, failed, status{"away", 0, none}},
			{time.Minute, recovered, ok},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &outage{fallback: none}
				var handedOn, sent []lock.Event
				observe := o.observed(func(_ context.Context, e lock.Event) { handedOn = append(handedOn, e) })
				for i, s := range tt.steps {
					time.Sleep(s.after)
					if s.event != nil {
						observe(t.Context(), s.event)
						sent = append(sent, s.event)
					}
					require.Equal(t, s.want, o.status(), "step %d", i+1)
				}
				assert.Equal(t, sent, handedOn)
			})
		})
	}
}

func TestStatusRoute(t *testing.T) {
	o := &outage{fallback: fallbackLocal}
	page, err := newPage(0, o)
	require.NoError(t, err)
	h := newHandler(demoModel{}, nil, page)
	get := func() string {
		w := do(h, "GET", "/page/status.json", "")
		require.Equal(t, http.StatusOK, w.Code)
		assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		return w.Body.String()
	}
	assert.Equal(t, `{"redis":"ok","seconds":0,"fallback":"local"}`, get())
	o.note(lock.BackendFailed{Err: lock.ErrUnavailable})
	assert.Equal(t, `{"redis":"away","seconds":0,"fallback":"local"}`, get())
	o.note(lock.BackendRecovered{})
	o.note(lock.KeptBack{Backend: "redis at 127.0.0.1:1", For: time.Hour})
	assert.Equal(t, `{"redis":"kept_back","seconds":3600,"fallback":"local"}`, get())
}
