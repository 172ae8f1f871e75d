package extproc

import (
	"bytes"

	"github.com/pointsman/pointsman/services/router/internal/front/extproc/wire"
	"github.com/pointsman/pointsman/services/router/internal/usage"
)

// responseBody takes a part of the answer's body and answers it at once.
func (x *exchange) responseBody() error {
	if x.response == ended {
		if x.responseMode == wire.FullDuplex {
			return nil // an answer would come after the end
		}
		return x.neutral()
	}
	x.response, x.answered = passing, true
	x.watch()
	end := x.in.EndOfStream
	var err error
	if x.responseMode == wire.FullDuplex {
		x.relay = x.in.TakeBody(x.relay[:0])
		err = x.sendStreamed(wire.ResponseBody, x.relay, end, wire.Metadata{})
	} else {
		err = x.neutral()
	}
	if end {
		x.response = ended
		x.close()
	}
	return err
}

// watch looks at a part of the answer.
func (x *exchange) watch() {
	x.sent += int64(x.in.Size())
	if x.meter == nil {
		if x.in.Size() == 0 {
			return
		}
		x.meter = usage.New(guess(x.in.Body()[0].ReadOnlyData()), "") // the proxy does not send headers
	}
	for _, p := range x.in.Body() {
		x.meter.Feed(p.ReadOnlyData())
	}
	if x.in.Size() > 0 && x.status < 400 && (x.meter.Generated() || !x.meter.Streams()) {
		x.begins()
	}
}

// guess returns the type of an answer that begins so.
func guess(b []byte) string {
	b = bytes.TrimLeft(b, " \r\n\t")
	switch {
	case bytes.HasPrefix(b, []byte("{")):
		return "application/json"
	case bytes.HasPrefix(b, []byte("data:")), bytes.HasPrefix(b, []byte("event:")), bytes.HasPrefix(b, []byte(":")):
		return "text/event-stream"
	}
	return ""
}
