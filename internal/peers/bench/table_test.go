package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

var tableTest = struct {
	scenario scenario
	rows     []row
}{
	scenario{columns: []column{{head: "rate", best: highest, limited: true}, {head: "gap", digits: 1, best: lowest}, {head: "max", merge: highest}}},
	[]row{
		{peer{name: ours}, []sample{{figures: []float64{90, 0, 1}}, {figures: []float64{30, 0.5, 7}}, {figures: []float64{60, 1, 2}}}},
		{peer{name: "redsync"}, []sample{{figures: []float64{20, 2, 3}, failures: 1, failure: "late"}, {figures: []float64{20, 2, 3}, overlaps: 2}}},
		{peer{name: "bsm/redislock"}, []sample{{figures: []float64{40, 0, 3}}}},
		{limit, []sample{{figures: []float64{80, 0, 0}, overlaps: 1}}},
	},
}

func TestTable(t *testing.T) {
	var text, markdown strings.Builder
	lines := tabulate(tableTest.scenario, tableTest.rows)
	writeText(&text, lines)
	writeMarkdown(&markdown, lines)
	assert.Equal(t, strings.TrimPrefix(`
                 rate  × best  × limit  gap  × best  max
  reqlock          60    1.50     0.75  0.5       ∞    7
  redsync          20    0.50     0.25  2.0       ∞    3
  bsm/redislock    40    1.00     0.50  0.0       –    3
  sync.Mutex       80    2.00     1.00  0.0       –    0
`, "\n"), text.String())
	assert.Equal(t, strings.TrimPrefix(`
|  | rate | × best | × limit | gap | × best | max |
|---|---:|---:|---:|---:|---:|---:|
| reqlock | 60 | 1.50 | 0.75 | 0.5 | ∞ | 7 |
| redsync | 20 | 0.50 | 0.25 | 2.0 | ∞ | 3 |
| bsm/redislock | 40 | 1.00 | 0.50 | 0.0 | – | 3 |
| sync.Mutex | 80 | 2.00 | 1.00 | 0.0 | – | 0 |
`, "\n"), markdown.String())
}

// A figure that a run does not have is none of those that are merged.
func TestFigure(t *testing.T) {
	none := math.NaN()
	for _, c := range []struct {
		name  string
		merge func([]float64) float64
		runs  []float64
		want  string
	}{
		{"highest", highest, []float64{none, 3, 1}, "3"},
		{"median", nil, []float64{none, 3, 1, none}, "2"},
		{"none", highest, []float64{none, none}, "–"},
		{"no median", nil, []float64{none}, "–"},
	} {
		var r row
		for _, f := range c.runs {
			r.samples = append(r.samples, sample{figures: []float64{f}})
		}
		assert.Equal(t, c.want, number(column{merge: c.merge}.figure(0, r), 0), c.name)
	}
}

func TestTroubles(t *testing.T) {
	lines, overlapped := troubles(tableTest.rows)
	assert.True(t, overlapped)
	assert.Equal(t, []string{
		"ERROR: redsync: the key was held already, 2 times",
		"redsync: 1 calls failed, one of them so: late",
		"ERROR: sync.Mutex: the key was held already, 1 times",
	}, lines)
	lines, overlapped = troubles(tableTest.rows[:1])
	assert.False(t, overlapped)
	assert.Empty(t, lines)
}
