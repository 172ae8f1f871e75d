package page

import (
	"fmt"
	"strconv"
	"strings"
)

// builder gathers families.
type builder struct {
	families []family
	like     *Distributions // for their bounds
	created  bool           // counters and histograms get a _created series
}

// series is the beginning of a sample line, up to its value. pairs are label names and values in turn; empty names are
// left out.
func series(name string, pairs ...string) string {
	var b strings.Builder
	b.WriteString(name)
	sep := byte('{')
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] == "" {
			continue
		}
		b.WriteByte(sep)
		sep = ','
		b.WriteString(pairs[i])
		b.WriteString(`="`)
		b.WriteString(escape(pairs[i+1]))
		b.WriteByte('"')
	}
	if sep == ',' {
		b.WriteByte('}')
	}
	b.WriteByte(' ')
	return b.String()
}

// escape writes a label value as the text format wants it.
func escape(v string) string {
	if !strings.ContainsAny(v, "\\\"\n") {
		return v
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(v)
}

func head(name, kind, help string) string {
	return fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func appendValue(dst []byte, begin string, v float64) []byte {
	dst = append(dst, begin...)
	dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	return append(dst, '\n')
}

func appendCount(dst []byte, begin string, n uint64) []byte {
	dst = append(dst, begin...)
	dst = strconv.AppendUint(dst, n, 10)
	return append(dst, '\n')
}

func (b *builder) add(name, kind, help string, write func([]byte, *Figures) []byte) {
	b.families = append(b.families, family{name: name, head: head(name, kind, help), write: write})
}

// gauge adds a family of one sample.
func (b *builder) gauge(name, help string, labels []string, value func(*Figures) float64) {
	begin := series(name, labels...)
	b.add(name, "gauge", help, func(dst []byte, f *Figures) []byte { return appendValue(dst, begin, value(f)) })
}

// counter adds a family of one sample. name ends in _total.
func (b *builder) counter(name, help string, labels []string, value func(*Figures) uint64) {
	begin := series(name, labels...)
	b.add(name, "counter", help, func(dst []byte, f *Figures) []byte { return appendCount(dst, begin, value(f)) })
	b.creation(strings.TrimSuffix(name, "_total")+"_created", labels)
}

// creation adds what Python's client library writes beside every counter and histogram.
func (b *builder) creation(name string, labels []string) {
	if b.created {
		b.gauge(name, "When it was created.", labels, func(f *Figures) float64 { return f.Created })
	}
}

// histogram adds a family.
func (b *builder) histogram(name, help string, labels []string, value func(*Distributions) *Histogram) {
	lines := newHistogramLines(name, labels, value(b.like).bounds)
	b.add(name, "histogram", help, func(dst []byte, f *Figures) []byte {
		return lines.append(dst, value(f.Distributions))
	})
	b.creation(name+"_created", labels)
}

// histogramLines are the beginnings of a histogram's lines.
type histogramLines struct {
	buckets    []string
	sum, count string
}

func newHistogramLines(name string, labels []string, bounds []float64) histogramLines {
	l := histogramLines{sum: series(name+"_sum", labels...), count: series(name+"_count", labels...)}
	for _, bound := range bounds {
		le := strconv.FormatFloat(bound, 'g', -1, 64)
		l.buckets = append(l.buckets, series(name+"_bucket", append(labels[:len(labels):len(labels)], "le", le)...))
	}
	l.buckets = append(l.buckets, series(name+"_bucket", append(labels[:len(labels):len(labels)], "le", "+Inf")...))
	return l
}

func (l *histogramLines) append(dst []byte, h *Histogram) []byte {
	total := uint64(0)
	for i, begin := range l.buckets {
		total += h.counts[i]
		dst = appendCount(dst, begin, total)
	}
	dst = appendValue(dst, l.sum, h.sum)
	return appendCount(dst, l.count, h.count)
}
