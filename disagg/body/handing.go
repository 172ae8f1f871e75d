package body

// Handing makes the body that has an engine prefill the prompt and hand its KV cache over as
// transfer, its kv_transfer_params, says: one token, not streamed.
func (o *Outline) Handing(a API, transfer []byte) Body {
	c := changes{o: o}
	c.limit(a, true)
	c.handOver(transfer)
	return c.body()
}

// Offloading is the same for engines that store the KV cache in a tier of their memory. They
// do so however the request ends, so that no limit of tokens is added but the one that every
// engine knows.
func (o *Outline) Offloading(a API, transfer []byte) Body {
	c := changes{o: o}
	c.limit(a, false)
	if own := a.limits(); len(own) > 0 {
		c.force(own[0], "1")
	}
	c.handOver(transfer)
	return c.body()
}

func (c *changes) handOver(transfer []byte) {
	c.apart(keyTransfer)
	c.atOnce()
	c.set(keyTransfer, string(transfer))
}
