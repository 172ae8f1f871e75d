package engine

import (
	"bytes"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func BenchmarkRead(b *testing.B) {
	text := largePage(b)
	for _, c := range []struct {
		name   string
		engine Name
	}{{"engine_known", VLLM}, {"engine_detected", ""}} {
		b.Run(c.name, func(b *testing.B) {
			r := NewCatalog().Reader(c.engine)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if f := r.Read(text); !f.Known() {
					b.Fatal("nothing read")
				}
			}
		})
	}
	b.Run("expfmt", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			p := expfmt.NewTextParser(model.LegacyValidation)
			if _, err := p.TextToMetricFamilies(bytes.NewReader(text)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
