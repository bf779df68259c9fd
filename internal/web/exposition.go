package web

import (
	"slices"
	"strconv"
	"strings"
)

// expositionType is the media type of the text format of Prometheus.
const expositionType = "text/plain; version=0.0.4; charset=utf-8"

// kind is a type of metrics, as the text format calls it.
type kind string

const (
	counter kind = "counter"
	gauge   kind = "gauge"
	buckets kind = "histogram"
)

// desc describes a metric.
type desc struct {
	name, help string
	labels     []string
}

// exposition gathers metrics for one answer.
//
// Source of the format: prometheus.io/docs/instrumenting/exposition_formats.
type exposition struct {
	families []*family
}

// family are the metrics of one name.
type family struct {
	d       *desc
	kind    kind
	samples []samples
}

// samples are the lines of one metric.
type samples struct {
	labels string // what they are sorted by
	lines  []byte
}

// put adds a metric of one number; the values of its labels are in the order of d.
func (x *exposition) put(d *desc, k kind, v float64, values ...string) {
	labels := d.pairs(values)
	x.family(d, k).add(labels, appendSample(nil, d.name, "", labels, v))
}

// histogram adds a metric with buckets: counts are of what is not above each of
// the bounds.
func (x *exposition) histogram(d *desc, bounds []float64, counts []uint64, total uint64, sum float64, values ...string) {
	labels := d.pairs(values)
	comma := ""
	if labels != "" {
		comma = ","
	}
	var b []byte
	for i, bound := range bounds {
		b = appendSample(b, d.name, "_bucket", labels+comma+`le="`+formatValue(bound)+`"`, float64(counts[i]))
	}
	b = appendSample(b, d.name, "_bucket", labels+comma+`le="+Inf"`, float64(total))
	b = appendSample(b, d.name, "_sum", labels, sum)
	b = appendSample(b, d.name, "_count", labels, float64(total))
	x.family(d, buckets).add(labels, b)
}

func (x *exposition) family(d *desc, k kind) *family {
	for _, f := range x.families {
		if f.d == d {
			return f
		}
	}
	f := &family{d: d, kind: k}
	x.families = append(x.families, f)
	return f
}

func (f *family) add(labels string, lines []byte) {
	f.samples = append(f.samples, samples{labels, lines})
}

// text returns all of it, sorted.
func (x *exposition) text() []byte {
	slices.SortFunc(x.families, func(a, b *family) int { return strings.Compare(a.d.name, b.d.name) })
	var b []byte
	for _, f := range x.families {
		b = append(b, "# HELP "+f.d.name+" "+f.d.help+"\n# TYPE "+f.d.name+" "+string(f.kind)+"\n"...)
		slices.SortStableFunc(f.samples, func(a, b samples) int { return strings.Compare(a.labels, b.labels) })
		for _, s := range f.samples {
			b = append(b, s.lines...)
		}
	}
	return b
}

// pairs are the labels with their values, sorted by name.
func (d *desc) pairs(values []string) string {
	var pairs []string
	for i, name := range d.labels {
		pairs = append(pairs, name+`="`+escapeLabel.Replace(values[i])+`"`)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func appendSample(b []byte, name, suffix, labels string, v float64) []byte {
	b = append(append(b, name...), suffix...)
	if labels != "" {
		b = append(append(append(b, '{'), labels...), '}')
	}
	b = append(append(b, ' '), formatValue(v)...)
	return append(b, '\n')
}

func formatValue(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
