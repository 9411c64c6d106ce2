package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// figure merges the samples of a row to one figure. A run need not have each.
func (c column) figure(i int, r row) float64 {
	var all []float64
	for _, s := range r.samples {
		if f := s.figures[i]; !math.IsNaN(f) {
			all = append(all, f)
		}
	}
	if c.merge != nil && len(all) > 0 {
		return c.merge(all)
	}
	return median(all)
}

// tabulate returns the lines of a scenario's table, the first one its head.
func tabulate(s scenario, rows []row) [][]string {
	lines := make([][]string, len(rows)+1)
	lines[0] = []string{""}
	for j, r := range rows {
		lines[j+1] = []string{r.peer.name}
	}
	for i, c := range s.columns {
		add := func(head string, digits int, figures []float64) {
			lines[0] = append(lines[0], head)
			for j, f := range figures {
				lines[j+1] = append(lines[j+1], number(f, digits))
			}
		}
		figures := make([]float64, len(rows))
		var others []float64
		best, limited := math.NaN(), math.NaN()
		for j, r := range rows {
			figures[j] = c.figure(i, r)
			switch r.peer.name {
			case limit.name:
				limited = figures[j]
			case ours:
			default:
				others = append(others, figures[j])
			}
		}
		if c.best != nil && len(others) > 0 {
			best = c.best(others)
		}
		add(c.head, c.digits, figures)
		if c.best != nil {
			add("× best", 2, ratios(figures, best))
		}
		if c.limited {
			add("× limit", 2, ratios(figures, limited))
		}
	}
	return lines
}

func ratios(v []float64, to float64) []float64 {
	r := make([]float64, len(v))
	for i, x := range v {
		r[i] = x / to
	}
	return r
}

// number formats a figure; one that does not exist is a dash.
func number(f float64, digits int) string {
	switch {
	case math.IsNaN(f):
		return "–"
	case math.IsInf(f, 1):
		return "∞"
	}
	return fmt.Sprintf("%.*f", digits, f)
}

// troubles returns a line for each kind of trouble in rows, and whether a lock
// failed to exclude.
func troubles(rows []row) (lines []string, overlapped bool) {
	for _, r := range rows {
		var all sample
		for _, s := range r.samples {
			all.add(s)
		}
		if all.overlaps > 0 {
			overlapped = true
			lines = append(lines, fmt.Sprintf("ERROR: %s: the key was held already, %d times", r.peer.name, all.overlaps))
		}
		if all.failures > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d calls failed, one of them so: %s", r.peer.name, all.failures, all.failure))
		}
	}
	return lines, overlapped
}

// writeText aligns names on the left, figures on the right.
func writeText(out io.Writer, lines [][]string) {
	width := 0
	for _, l := range lines {
		width = max(width, utf8.RuneCountInString(l[0]))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, l := range lines {
		fmt.Fprintf(w, "%-*s\t%s\t\n", width, l[0], strings.Join(l[1:], "\t"))
	}
	_ = w.Flush()
}

func writeMarkdown(out io.Writer, lines [][]string) {
	for i, l := range lines {
		fmt.Fprintf(out, "| %s |\n", strings.Join(l, " | "))
		if i == 0 {
			fmt.Fprintf(out, "|---|%s\n", strings.Repeat("---:|", len(l)-1))
		}
	}
}
