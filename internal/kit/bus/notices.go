package bus

import (
	"sync"
	"time"
)

const (
	repeatAfter = 30 * time.Second
	mostNotices = 64
)

// notices decides which repeated log lines are worth writing: each topic on a
// change of its text, and again every 30 s.
type notices struct {
	mu    sync.Mutex
	known map[string]notice
}

type notice struct {
	text string
	at   time.Time
}

func (n *notices) due(topic, text string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	old, ok := n.known[topic]
	if ok && old.text == text && now.Sub(old.at) < repeatAfter {
		return false
	}
	if n.known == nil || len(n.known) >= mostNotices {
		n.known = make(map[string]notice)
	}
	n.known[topic] = notice{text, now}
	return true
}

// forget makes the next line of the topic due.
func (n *notices) forget(topic string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, topic)
}
