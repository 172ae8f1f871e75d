package bus

import (
	"errors"

	"github.com/nats-io/nats.go"
)

// plainError puts nats.go's errors into the bus's own terms.
func plainError(err error) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining),
		errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrInvalidConnection), errors.Is(err, nats.ErrDisconnected):
		return ErrOffline
	case errors.Is(err, nats.ErrMaxPayload):
		return ErrTooLarge
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNoResponders
	}
	return err
}

// kindOf is the error's kind in pointsman_bus_errors_total.
func kindOf(err error) string {
	switch {
	case errors.Is(err, ErrOffline):
		return kindOffline
	case errors.Is(err, ErrTooLarge):
		return kindTooLarge
	}
	return kindSend
}
