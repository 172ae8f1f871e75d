package modelserver

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pointsman/pointsman/sim/page"
)

// pair is a prefill and a decode server of SGLang's kind. The first has its rooms on a port of their own.
func pair(t *testing.T, change func(*Transfer)) (prefill, decode *started) {
	t.Helper()
	made := func(m Mode) *started {
		return start(t, func(c *Config) {
			c.Page = page.SGLang
			c.Transfer.Connector, c.Transfer.Mode = SGLang, m
			if m == PrefillMode {
				c.Transfer.BootstrapAddress = "127.0.0.1:0"
			}
			if change != nil {
				change(&c.Transfer)
			}
		})
	}
	return made(PrefillMode), made(DecodeMode)
}

// roomBody is what both legs get.
func roomBody(prefill *started, room int64, prompt string) string {
	host, port, _ := net.SplitHostPort(prefill.BootstrapAddress())
	return fmt.Sprintf(`{"prompt":%q,"max_tokens":4,"ignore_eos":true,"bootstrap_host":%q,"bootstrap_port":%s,"bootstrap_room":%d}`, prompt, host, port, room)
}

type outcome struct {
	status int
	body   string
}

// send posts in the background.
func send(ctx context.Context, x *started, body string) <-chan outcome {
	return tells(func() outcome {
		resp, err := x.do(ctx, "POST", "/v1/completions", body)
		if err != nil {
			return outcome{body: err.Error()}
		}
		var b strings.Builder
		buf := make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buf)
			b.Write(buf[:n])
			if err != nil {
				return outcome{resp.StatusCode, b.String()}
			}
		}
	})
}

func idle(t *testing.T, servers ...*started) {
	t.Helper()
	for _, x := range servers {
		eventually(t, "nothing to be left behind", func() bool {
			s := x.Stats()
			return s.BlocksUsed+s.Running+s.Waiting+s.Held == 0 && x.Transfers().Rooms == 0
		})
	}
}

func TestLegsMeet(t *testing.T) {
	prefill, decode := pair(t, nil)
	for i, first := range []*started{prefill, decode} {
		second := map[*started]*started{prefill: decode, decode: prefill}[first]
		body := roomBody(prefill, int64(1)<<62+int64(i), fmt.Sprint(i, longPrompt))
		a := send(t.Context(), first, body)
		time.Sleep(20 * time.Millisecond) // whoever comes first waits
		b := send(t.Context(), second, body)
		got := map[*started]outcome{first: <-a, second: <-b}
		if got[prefill].status != 200 || !strings.Contains(got[prefill].body, `"completion_tokens":1`) {
			t.Errorf("prefill leg: %+v", got[prefill])
		}
		if got[decode].status != 200 || !strings.Contains(got[decode].body, `"completion_tokens":4`) || !strings.Contains(got[decode].body, `"cached_tokens":50`) {
			t.Errorf("decode leg: %+v", got[decode])
		}
	}
	if p, d := prefill.Transfers(), decode.Transfers(); p.Served != 2 || d.Fetched != 2 || decode.Stats().PrefillTokens != 2 {
		t.Errorf("transfers %+v and %+v", p, d)
	}
	idle(t, prefill, decode)
	if _, text := decode.call("GET", "/metrics", ""); !strings.Contains(text, `sglang:num_decode_transfer_queue_reqs{engine_type="decode"`) {
		t.Error("the page does not show the transfer queue")
	}
}

func TestOneLegAlone(t *testing.T) {
	soon := func(c *Transfer) { c.MeetFor = 20 * time.Second } // 0.2 s on the wall
	t.Run("the decode leg does not come", func(t *testing.T) {
		prefill, decode := pair(t, soon)
		if got := <-send(t.Context(), prefill, roomBody(prefill, 1, longPrompt)); got.status != 500 {
			t.Errorf("%+v", got)
		}
		idle(t, prefill, decode)
	})
	t.Run("B169: the prefill leg fails at once, the decode leg waits in vain", func(t *testing.T) {
		prefill, decode := pair(t, soon)
		prefill.set(`{"errorProbability":1}`)
		body := roomBody(prefill, 1, longPrompt)
		d := send(t.Context(), decode, body)
		if got := <-send(t.Context(), prefill, body); got.status != 500 {
			t.Errorf("prefill leg: %+v", got)
		}
		if got := <-d; got.status != 500 {
			t.Errorf("decode leg: %+v", got)
		}
		idle(t, prefill, decode)
	})
	t.Run("the client of the decode leg goes", func(t *testing.T) {
		prefill, decode := pair(t, nil)
		prefill.set(`{"freeze":true}`)
		ctx, cancel := context.WithCancel(t.Context())
		body := roomBody(prefill, 1, longPrompt)
		d, p := send(ctx, decode, body), send(t.Context(), prefill, body)
		eventually(t, "both legs to be in the room", func() bool { return prefill.Stats().Waiting == 1 && decode.Stats().Fetching == 1 })
		cancel()
		<-d
		if got := <-p; got.status != 500 {
			t.Errorf("prefill leg: %+v", got)
		}
		prefill.set(`{"freeze":false}`)
		idle(t, prefill, decode)
	})
	t.Run("the client of the prefill leg goes", func(t *testing.T) {
		prefill, decode := pair(t, nil)
		prefill.set(`{"freeze":true}`)
		ctx, cancel := context.WithCancel(t.Context())
		body := roomBody(prefill, 1, longPrompt)
		p, d := send(ctx, prefill, body), send(t.Context(), decode, body)
		eventually(t, "both legs to be in the room", func() bool { return prefill.Stats().Waiting == 1 && decode.Stats().Fetching == 1 })
		cancel()
		<-p
		if got := <-d; got.status != 500 {
			t.Errorf("decode leg: %+v", got)
		}
		prefill.set(`{"freeze":false}`)
		idle(t, prefill, decode)
	})
	t.Run("the connection breaks in the transfer", func(t *testing.T) {
		prefill, decode := pair(t, nil)
		prefill.set(`{"transferDropProbability":1}`)
		body := roomBody(prefill, 1, longPrompt)
		d, p := send(t.Context(), decode, body), send(t.Context(), prefill, body)
		if a, b := <-p, <-d; a.status != 500 || b.status != 500 {
			t.Errorf("prefill leg %+v, decode leg %+v", a, b)
		}
		idle(t, prefill, decode)
	})
}

func TestRequestsWithoutRooms(t *testing.T) {
	prefill, decode := pair(t, nil)
	for _, c := range []struct {
		name string
		x    *started
		body string
		says string
	}{
		{"prefill without a room", prefill, `{"prompt":"x"}`, "without bootstrap room id"},
		{"decode without a room", decode, `{"prompt":"x"}`, "without bootstrap room id"},
		{"decode without a host", decode, `{"prompt":"x","bootstrap_room":1}`, "bootstrap_host"},
		{"two prompts", prefill, `{"prompt":["x","y"],"bootstrap_room":1}`, "one prompt"},
		{"a room that is no 63-bit number", prefill, `{"prompt":"x","bootstrap_room":9223372036854775808}`, "not understood"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if e := post[errorBody](c.x, "/v1/completions", c.body, 400); !strings.Contains(e.Error.Message, c.says) {
				t.Errorf("error %q, want %q in it", e.Error.Message, c.says)
			}
		})
	}
	t.Run("a room that is in use, and other prompts", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := send(ctx, prefill, roomBody(prefill, 7, longPrompt))
		eventually(t, "the first leg to be in the room", func() bool { return prefill.Transfers().Rooms == 1 })
		post[errorBody](prefill, "/v1/completions", roomBody(prefill, 7, longPrompt), 400)
		post[errorBody](decode, "/v1/completions", roomBody(prefill, 7, strings.ToUpper(longPrompt)), 500)
		if got := <-first; got.status != 500 {
			t.Errorf("the leg with the other prompt: %+v", got)
		}
		idle(t, prefill, decode)
	})
}
