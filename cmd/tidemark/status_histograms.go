package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-log/tidemark/internal/control"
)

// printHistograms prints a table for each unit: a column is an order N and counts
// what was 2^N to 2^(N+1)-1, the lowest also what was less. Empty columns at both
// ends are left out.
func printHistograms(out io.Writer, all []control.Histogram) error {
	for _, table := range []struct{ unit, title string }{
		{"µs", "took, log2(µs)"},
		{"records", "size, log2(records)"},
	} {
		var list []control.Histogram
		for _, h := range all {
			if h.Unit == table.unit {
				list = append(list, h)
			}
		}
		if len(list) == 0 {
			continue
		}
		if _, err := io.WriteString(out, histogramTable(table.title, list)); err != nil {
			return err
		}
	}
	return nil
}

func histogramTable(title string, list []control.Histogram) string {
	first, end := len(list[0].Counts), 0
	for _, h := range list {
		end = max(end, len(h.Counts))
		if i := slices.IndexFunc(h.Counts, func(n uint64) bool { return n > 0 }); i >= 0 {
			first = min(first, i)
		}
	}
	rows := [][]string{{title}}
	for order := first; order < end; order++ {
		rows[0] = append(rows[0], strconv.Itoa(order))
	}
	for _, h := range list {
		row := []string{"  " + histogramName(h.Name)}
		for order := first; order < end; order++ {
			n := uint64(0)
			if order < len(h.Counts) {
				n = h.Counts[order]
			}
			row = append(row, strconv.FormatUint(n, 10))
		}
		rows = append(rows, row)
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			width := 0
			for _, other := range rows {
				width = max(width, len([]rune(other[i])))
			}
			if i == 0 {
				fmt.Fprintf(&b, "%-*s", width, cell)
			} else {
				fmt.Fprintf(&b, "  %*s", width, cell)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// histogramName is what a row is called.
func histogramName(name string) string {
	if name == "records" {
		return "of a sync"
	}
	return strings.Replace(name, "access_log", "access log", 1)
}
