package scorer

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestCallContextBehavesLikeAnyOther(t *testing.T) {
	far := time.Now().Add(time.Hour)
	t.Run("before its end", func(t *testing.T) {
		c := &callContext{Context: t.Context(), deadline: far}
		if err := c.Err(); err != nil {
			t.Errorf("Err = %v", err)
		}
		select {
		case <-c.Done():
			t.Error("done")
		default:
		}
		if err := c.Err(); err != nil {
			t.Errorf("Err = %v", err)
		}
		c.end()
	})
	t.Run("after its end", func(t *testing.T) {
		for _, early := range []bool{false, true} { // Done asked for before the end or after
			c := &callContext{Context: t.Context(), deadline: far}
			if early {
				c.Done()
			}
			c.end()
			if !early && !errors.Is(c.Err(), context.Canceled) {
				t.Errorf("Err = %v", c.Err())
			}
			<-c.Done()
			if !errors.Is(c.Err(), context.Canceled) {
				t.Errorf("Err = %v", c.Err())
			}
		}
	})
	t.Run("when the stream ends", func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		c := &callContext{Context: parent, deadline: far}
		defer c.end()
		cancel()
		if !errors.Is(c.Err(), context.Canceled) {
			t.Errorf("Err = %v", c.Err())
		}
		<-c.Done()
	})
	t.Run("when its time is over", func(t *testing.T) {
		c := &callContext{Context: t.Context(), deadline: time.Now()}
		defer c.end()
		if !errors.Is(c.Err(), context.DeadlineExceeded) {
			t.Errorf("Err = %v", c.Err())
		}
		<-c.Done()
		if !errors.Is(c.Err(), context.DeadlineExceeded) {
			t.Errorf("Err = %v", c.Err())
		}
	})
	t.Run("as a parent", func(t *testing.T) {
		type key struct{}
		c := &callContext{Context: context.WithValue(t.Context(), key{}, 7), deadline: far}
		child, cancel := context.WithCancel(c)
		defer cancel()
		if child.Value(key{}) != 7 {
			t.Error("the stream's values are lost")
		}
		c.end()
		<-child.Done()
	})
}
