package outcomes

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// stamp is a statev1.Stamp with its time, used again and again. The id of the last
// publisher is kept to be used for the next: it nearly always is the same one.
type stamp struct {
	message statev1.Stamp
	time    timestamppb.Timestamp
	last    string
}

func (s *stamp) reset() {
	s.message.PublisherId, s.message.Sequence, s.message.PublishTime = "", 0, nil
	s.time.Seconds, s.time.Nanos = 0, 0
}

func (s *stamp) take(o *stamp) {
	s.message.PublisherId, s.message.Sequence = o.message.GetPublisherId(), o.message.GetSequence()
	if o.message.GetPublishTime() != nil {
		s.time.Seconds, s.time.Nanos = o.time.GetSeconds(), o.time.GetNanos()
		s.message.PublishTime = &s.time
	}
}

func (s *stamp) read(c *cursor) {
	for c.next() {
		switch c.num {
		case 1:
			if id := c.inner(); s.last != string(id.data[id.at:id.end]) {
				s.last = string(id.data[id.at:id.end])
			}
			s.message.PublisherId = s.last
		case 2:
			s.message.Sequence = c.number()
		case 3:
			at := c.inner()
			s.message.PublishTime = &s.time
			s.readTime(&at)
			c.fail(&at)
		default:
			c.skip()
		}
	}
}

func (s *stamp) readTime(c *cursor) {
	for c.next() {
		switch c.num {
		case 1:
			s.time.Seconds = int64(c.number()) //nolint:gosec // as protobuf has it
		case 2:
			s.time.Nanos = int32(c.number()) //nolint:gosec // as protobuf has it
		default:
			c.skip()
		}
	}
}
