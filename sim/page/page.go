package page

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pointsman/pointsman/sim/engine"
)

// Style names the engine whose page is written.
type Style string

// The styles.
const (
	// VLLM is vLLM from 0.10 on.
	VLLM Style = "vllm"
	// VLLM09 is vLLM up to 0.9: vllm:gpu_cache_usage_perc in place of vllm:kv_cache_usage_perc, and no cache_config_info.
	VLLM09 Style = "vllm-0.9"
	// SGLang is SGLang with names that begin "sglang:".
	SGLang Style = "sglang"
	// SGLangUnderscore is SGLang with names that begin "sglang_".
	SGLangUnderscore Style = "sglang-underscore"
	// TRTLLM is TensorRT-LLM's own server, trtllm-serve.
	TRTLLM Style = "trtllm-serve"
	// Triton is Triton with the TensorRT-LLM backend.
	Triton Style = "triton-trtllm"
)

// Styles returns all of them.
func Styles() []Style { return []Style{VLLM, VLLM09, SGLang, SGLangUnderscore, TRTLLM, Triton} }

// Options say what page it is.
type Options struct {
	// Style is the engine. Default VLLM.
	Style Style
	// Model is the value of the model label.
	Model string
	// BlockSize, NumBlocks, ModelLen and MaxAdapters are those of the engine. With no adapters there is no adapter family.
	BlockSize, NumBlocks, ModelLen, MaxAdapters int
	// Large makes a page of some 58 KB as a real vLLM server's, with an engine label, creation times and the families of
	// its HTTP server. Only for VLLM and VLLM09.
	Large bool
	// Transfers adds what vLLM shows with NixlConnector, and SGLang's queues of transfers.
	Transfers bool
	// Mode is SGLang's disaggregation mode, "prefill" or "decode"; empty means neither.
	Mode string
}

// Validate reports all faults of o at once.
func (o Options) Validate() error {
	var faults []error
	if !slices.Contains(Styles(), o.Style) {
		faults = append(faults, fmt.Errorf("page Style %q: must be one of %v", o.Style, Styles()))
	}
	if o.ModelLen < 1 {
		faults = append(faults, fmt.Errorf("page ModelLen %d: must be positive", o.ModelLen))
	}
	if o.Large && o.Style != VLLM && o.Style != VLLM09 {
		faults = append(faults, fmt.Errorf("page Large: only for the styles %q and %q", VLLM, VLLM09))
	}
	return errors.Join(faults...)
}

// Figures are the values of a page.
type Figures struct {
	// Stats are the engine's.
	Stats engine.Stats
	// Distributions are the engine's histograms, made by this page's NewDistributions. Must be set.
	Distributions *Distributions
	// Adapters are the adapter sets; nil means none were seen.
	Adapters *AdapterLog
	// Created is when the server began, in Unix seconds. Only a large page shows it.
	Created float64
	// Routes are the HTTP server's figures, one per element of Routes(); nil means all zero. Only a large page shows them.
	Routes []RouteFigures
}

// Page writes pages of one kind. It is immutable and safe for concurrent use.
type Page struct {
	families []family
	modelLen int
}

// family is one metric family: its HELP and TYPE lines, and what writes its samples.
type family struct {
	name  string
	head  string
	write func(dst []byte, f *Figures) []byte
}

// New returns the page that o describes.
func New(o Options) (*Page, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b := builder{like: newDistributions(o.ModelLen)}
	switch o.Style {
	case VLLM, VLLM09:
		b.vllm(o)
	case SGLang:
		b.sglang(o, "sglang:")
	case SGLangUnderscore:
		b.sglang(o, "sglang_")
	case TRTLLM:
		b.trtllm(o)
	case Triton:
		b.triton(o)
	}
	slices.SortFunc(b.families, func(x, y family) int { return strings.Compare(x.name, y.name) })
	return &Page{b.families, o.ModelLen}, nil
}

// NewDistributions returns empty histograms for this page.
func (p *Page) NewDistributions() *Distributions { return newDistributions(p.modelLen) }

// Append appends the page, in text format 0.0.4, to dst.
func (p *Page) Append(dst []byte, f *Figures) []byte {
	for i := range p.families {
		dst = append(dst, p.families[i].head...)
		dst = p.families[i].write(dst, f)
	}
	return dst
}

// ContentType is the media type of a page.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"
