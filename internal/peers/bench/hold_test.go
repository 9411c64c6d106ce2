package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOverlaps(t *testing.T) {
	for _, c := range []struct {
		name  string
		holds []hold
		want  int
	}{
		{"none", nil, 0},
		{"in turn", []hold{{From: 10, To: 20}, {From: 20, To: 30}, {From: 1, To: 2}}, 0},
		{"other keys", []hold{{Key: 1, From: 1, To: 3}, {Key: 2, From: 2, To: 4}}, 0},
		{"by a nanosecond", []hold{{From: 20, To: 30}, {From: 10, To: 21}}, 1},
		{"at once", []hold{{From: 10, To: 20}, {From: 10, To: 20}}, 1},
		{"inside", []hold{{From: 10, To: 99}, {From: 20, To: 30}, {From: 40, To: 50}, {From: 99, To: 100}}, 2},
		{"on one of the keys", []hold{{Key: 1, From: 1, To: 9}, {Key: 2, From: 2, To: 9}, {Key: 1, From: 8, To: 9}}, 1},
	} {
		assert.Equal(t, c.want, overlaps(c.holds), c.name)
	}
}

func TestHandoffs(t *testing.T) {
	ms := int64(time.Millisecond)
	holds := []hold{
		{process: 0, From: 10 * ms, To: 15 * ms},
		{process: 2, From: 40 * ms, To: 45 * ms},
		{process: 1, From: 16 * ms, To: 21 * ms},
		{process: 1, From: 30 * ms, To: 35 * ms}, // from itself: no hand-off
	}
	assert.Equal(t, []float64{1, 5}, handoffs(holds))
	assert.Empty(t, handoffs(nil))
}

func TestQuantile(t *testing.T) {
	v := []float64{40, 10, 30, 20}
	for _, c := range []struct{ q, want float64 }{{0, 10}, {0.25, 10}, {0.26, 20}, {0.5, 20}, {0.99, 40}, {1, 40}} {
		assert.Equal(t, c.want, quantile(v, c.q), "%v", c.q)
	}
	assert.Equal(t, 25.0, median(v))
	assert.Equal(t, 20.0, median(v[1:]))
	for _, f := range []float64{quantile(nil, 0.5), median(nil), mean(nil)} {
		assert.NotEqual(t, f, f, "NaN")
	}
}

func TestBetween(t *testing.T) {
	at := time.Unix(0, 100)
	holds := []hold{{From: 99}, {From: 100}, {From: 109}, {From: 110}}
	assert.Equal(t, holds[1:3], between(holds, at, at.Add(10)))
}
