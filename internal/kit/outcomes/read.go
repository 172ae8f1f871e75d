package outcomes

// UnmarshalVT reads a batch in place of what b held. It has the name of the generated
// method that it stands in for. data may be changed afterwards. After an error b holds
// nothing that may be used.
func (b *Batch) UnmarshalVT(data []byte) error {
	b.stamp.reset()
	b.Events, b.Leaving = b.Events[:0], false
	text := "" // data, once an id in it is wanted
	c := cursor{data: data, end: len(data)}
	for c.next() {
		switch c.num {
		case 1:
			s := c.inner()
			b.stamp.read(&s)
			c.fail(&s)
		case 2:
			e := c.inner()
			if b.Deaf != "" && b.Deaf == b.stamp.message.GetPublisherId() {
				continue
			}
			b.Events = append(b.Events, Event{})
			b.Events[len(b.Events)-1].read(&e, &text)
			c.fail(&e)
		case 3:
			b.Leaving = c.number() != 0
		default:
			c.skip()
		}
	}
	return c.err
}

// read reads an event. text is the whole data as a string, if it was needed before.
func (e *Event) read(c *cursor, text *string) {
	for c.next() {
		switch c.num {
		case 1:
			e.PickID = c.number()
		case 2:
			e.become(Picked)
			m := c.inner()
			e.readPicked(&m, text)
			c.fail(&m)
		case 3:
			e.become(FirstToken)
			c.inner()
		case 4:
			e.become(Finished)
			m := c.inner()
			e.readFinished(&m)
			c.fail(&m)
		default:
			c.skip()
		}
	}
}

// become makes e an event of the kind. Parts of one kind add up, as protobuf has it.
func (e *Event) become(k Kind) {
	if e.Kind == k {
		return
	}
	*e = Event{Kind: k, PickID: e.PickID}
	if k == Finished {
		e.ReportedTokens, e.ReportedCachedTokens = NotReported, NotReported
	}
}

func (e *Event) readPicked(c *cursor, text *string) {
	for c.next() {
		switch c.num {
		case 1:
			id := c.inner()
			if *text == "" {
				*text = string(c.data)
			}
			e.Endpoint = (*text)[id.at:id.end]
		case 2:
			e.PromptTokens = uint32(c.number()) //nolint:gosec // as protobuf has it
		case 3:
			e.UncachedTokens = uint32(c.number()) //nolint:gosec // as protobuf has it
		case 4:
			e.AgeMS = uint32(c.number()) //nolint:gosec // as protobuf has it
		default:
			c.skip()
		}
	}
}

func (e *Event) readFinished(c *cursor) {
	for c.next() {
		switch c.num {
		case 2:
			e.Completed = c.number() != 0
		case 3:
			e.ReportedTokens = int64(uint32(c.number())) //nolint:gosec // as protobuf has it
		case 4:
			e.ReportedCachedTokens = int64(uint32(c.number())) //nolint:gosec // as protobuf has it
		default:
			c.skip()
		}
	}
}
