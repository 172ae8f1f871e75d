package body_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/disagg/body"
)

func TestReader(t *testing.T) {
	raw := []byte(`{"model":"m","max_tokens":5,"messages":["` + string(bytes.Repeat([]byte("x"), 5000)) + `"]}`)
	o, err := body.Read(raw)
	if err != nil {
		t.Fatal(err)
	}
	b := o.NIXLPrefill(body.Chat)
	if err := iotest.TestReader(b.Reader(nil), b.Bytes()); err != nil {
		t.Error(err)
	}
	released := 0
	r := b.Reader(func() { released++ })
	if n, err := r.Read(make([]byte, 10)); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil || released != 1 {
		t.Errorf("released %d times, %v", released, err)
	}
	if _, err := r.Read(make([]byte, 10)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after the end: %v", err)
	}
	if int64(len(b.Bytes())) != b.Size() {
		t.Errorf("the size is %d of %d", b.Size(), len(b.Bytes()))
	}
}

// whole is an object with the text of its values; of keys that are there twice the last
// one counts.
type whole map[string]json.RawMessage

func members(t *testing.T, raw []byte) whole {
	t.Helper()
	var m whole
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%v in %q", err, raw)
	}
	return m
}

// FuzzLegs checks every leg's body against what a naive map says.
func FuzzLegs(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":50,"seed":9007199254740993}`,
		`{"stream":true,"stream_options":{"include_usage":true},"min_tokens":4}`,
		`{"stream_options":1,"stream_options":2}`, `{"a":1,"stream_options":2,"b":3}`, `{"a":1 , "stream_options":2 }`,
		`{"sampling_params":{"max_tokens":3,"max_tokens":4},"sampling_params":{}}`, `{"sampling_params":[],"cache_hit_threshold":1}`,
		`{"kv_transfer_params":null,"bootstrap_room":1}`, `{}`, `{"":{"":[]}}`, `{"max_tokens":1.50e+00}`,
	} {
		f.Add([]byte(s), byte(1))
	}
	f.Fuzz(func(t *testing.T, raw []byte, which byte) {
		o, err := body.Read(raw)
		if err != nil {
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("%q was read, and is not JSON", raw)
		}
		api := body.API(which%5 + 1)
		client := members(t, raw)
		transfer := []byte(`{"remote_host":"h"}`)
		meet := body.Bootstrap{Host: "h", Port: 1, Room: 2}
		one := json.RawMessage("1")
		alone, _ := o.Alone()
		between := whole{"kv_transfer_params": nil, "bootstrap_host": nil, "bootstrap_port": nil, "bootstrap_room": nil, "ec_transfer_params": nil}
		for name, leg := range map[string]struct {
			b   body.Body
			set map[string]json.RawMessage
		}{
			"prefill": {o.NIXLPrefill(api), whole{"kv_transfer_params": nil, "stream": json.RawMessage("false"), "max_tokens": one, "max_completion_tokens": one, "max_output_tokens": one, "min_tokens": one, "sampling_params": nil, "stream_options": nil}},
			"decode":  {o.NIXLDecode(transfer), whole{"kv_transfer_params": transfer}},
			"meeting": {o.SGLangDecode(meet), whole{"bootstrap_host": json.RawMessage(`"h"`), "bootstrap_port": one, "bootstrap_room": json.RawMessage("2")}},
			"meet":    {o.SGLangPrefill(api, meet), whole{"bootstrap_host": json.RawMessage(`"h"`), "bootstrap_port": one, "bootstrap_room": json.RawMessage("2"), "max_tokens": one, "max_completion_tokens": one, "max_output_tokens": one, "min_tokens": one, "sampling_params": nil}},
			"alone":   {alone, nil},
			"shared":  {o.SharedDecode(), whole{"cache_hit_threshold": json.RawMessage("0")}},
		} {
			got := members(t, leg.b.Bytes())
			for key, value := range leg.set {
				if v, ok := got[key]; ok && value != nil && !bytes.Equal(v, value) {
					t.Errorf("%s: %s is %s in %q", name, key, v, leg.b.Bytes())
				}
				delete(got, key)
			}
			rest := whole{}
			for key, value := range client {
				_, set := leg.set[key]
				if _, ok := between[key]; !ok && !set {
					rest[key] = value
				}
			}
			if diff := cmp.Diff(rest, got); diff != "" {
				t.Errorf("%s of %q: %s", name, raw, diff)
			}
		}
		if p := members(t, o.NIXLPrefill(api).Bytes()); string(p["stream"]) != "false" || p["stream_options"] != nil || p["kv_transfer_params"] == nil {
			t.Errorf("prefill of %q: %v", raw, p)
		}
		if d := members(t, o.NIXLDecode(transfer).Bytes()); !bytes.Equal(d["kv_transfer_params"], transfer) {
			t.Errorf("decode of %q: %v", raw, d)
		}
		if api == body.Generate {
			p := members(t, members(t, o.NIXLPrefill(api).Bytes())["sampling_params"])
			if string(p["max_tokens"]) != "1" || string(p["min_tokens"]) != "1" {
				t.Errorf("prefill of %q: sampling_params %v", raw, p)
			}
		}
	})
}

func BenchmarkLegs(b *testing.B) {
	raw := []byte(`{"model":"m","messages":[{"role":"user","content":"` + string(bytes.Repeat([]byte("word "), 4000)) + `"}],"max_tokens":250,"stream":true,"stream_options":{"include_usage":true}}`)
	transfer := []byte(`{"remote_host":"h"}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		o, err := body.Read(raw)
		if err != nil {
			b.Fatal(err)
		}
		if o.NIXLPrefill(body.Chat).Size() == 0 || o.NIXLDecode(transfer).Size() == 0 {
			b.Fatal("empty")
		}
	}
}
