package body

import (
	"encoding/json"
	"strconv"
)

// AskTransfer asks an engine to keep a prompt's KV cache for another one.
const AskTransfer = `{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`

// limit makes the engine generate one token. add says whether limits that the client
// does not give are added; else one is, if it gives none at all.
func (c *changes) limit(a API, add bool) {
	for _, name := range [...]string{keyMaxTokens, keyMaxCompletionTokens, keyMaxOutputTokens, keyMinTokens} {
		c.replace(name, "1")
	}
	if a == Generate {
		c.sample(keyMaxTokens, keyMinTokens)
		return
	}
	own := a.limits()
	if !add {
		for _, name := range own {
			if find(c.o.members, name) != nil {
				return
			}
		}
		own = own[:min(1, len(own))]
	}
	for _, name := range own {
		c.force(name, "1")
	}
	if add && a.minimum() {
		c.force(keyMinTokens, "1")
	}
}

// force turns a replacement into one that is also added.
func (c *changes) force(name, value string) {
	for i := range c.values {
		if c.values[i].name == name {
			c.values[i].add = true
			return
		}
	}
	c.set(name, value)
}

// atOnce asks for the answer in one piece.
func (c *changes) atOnce() {
	c.set(keyStream, "false")
	c.drop(keyStreamOptions)
}

// NIXLPrefill makes the body that has an engine prefill the prompt and keep its KV cache:
// one token, not streamed.
func (o *Outline) NIXLPrefill(a API) Body { return o.Handing(a, []byte(AskTransfer)) }

// NIXLDecode makes the body that has an engine fetch a KV cache. transfer is what the
// prefill leg has answered as kv_transfer_params, word for word; with vLLM's other ways to
// hand one over, and where a cache is fetched without a prefill leg, what says where it is.
func (o *Outline) NIXLDecode(transfer []byte) Body {
	c := changes{o: o}
	c.apart(keyTransfer)
	c.set(keyTransfer, string(transfer))
	return c.body()
}

// Bootstrap is where two SGLang engines meet.
type Bootstrap struct {
	// Host and Port are those of the prefill engine's bootstrap server.
	Host string
	Port uint16
	// Room is the meeting, different from all others that are under way.
	Room int64
}

func (c *changes) meet(b Bootstrap) {
	c.apart(keyHost, keyPort, keyRoom)
	host, err := json.Marshal(b.Host)
	if err != nil { // strings do not fail
		host = []byte(`""`)
	}
	c.set(keyHost, string(host))
	c.set(keyPort, strconv.Itoa(int(b.Port)))
	c.set(keyRoom, strconv.FormatInt(b.Room, 10))
}

// SGLangPrefill makes the body for the engine that prefills. One token is enough: it
// hands over the KV cache when it has it.
func (o *Outline) SGLangPrefill(a API, b Bootstrap) Body {
	c := changes{o: o}
	c.limit(a, false)
	c.meet(b)
	return c.body()
}

// SGLangDecode makes the body for the engine that decodes.
func (o *Outline) SGLangDecode(b Bootstrap) Body {
	c := changes{o: o}
	c.meet(b)
	return c.body()
}

// SharedPrefill makes the body that has an engine prefill the prompt into a storage that
// others read.
func (o *Outline) SharedPrefill(a API) Body {
	c := changes{o: o}
	c.apart()
	c.limit(a, true)
	c.atOnce()
	c.set(keyThreshold, "0")
	return c.body()
}

// SharedDecode makes the body that is decoded whatever part of the prompt is cached.
func (o *Outline) SharedDecode() Body {
	c := changes{o: o}
	c.apart()
	c.set(keyThreshold, "0")
	return c.body()
}
