package chat

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Model is the model that all requests name.
const Model = "bench-model"

// systemPrompts is how many beginnings the prompts of one size share.
const systemPrompts = 16

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type body struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Stream   bool      `json:"stream"`
}

// Bodies returns n different chat requests of exactly size bytes, 300 at least. A
// third of each is one of 16 system prompts, the rest alternates between user and assistant.
func Bodies(n, size int) [][]byte {
	rng := rand.New(rand.NewPCG(uint64(size), 1)) //nolint:gosec // repeatable on purpose
	systems := make([]string, min(systemPrompts, n))
	for i := range systems {
		systems[i] = words(rng, size/3)
	}
	all := make([][]byte, n)
	for i := range all {
		all[i] = one(rng, systems[i%len(systems)], i, size)
	}
	return all
}

// one fills a body up with turns of up to 2 KB.
func one(rng *rand.Rand, system string, number, size int) []byte {
	b := body{Model: Model, Messages: []message{{"system", system}, {"user", fmt.Sprintf("Conversation %d.", number)}}}
	for {
		missing := size - len(encode(b))
		if missing < 0 {
			panic(fmt.Sprintf("a body of %d bytes has no room for its frame", size))
		}
		if missing < 256 { // no room for another turn
			last := &b.Messages[len(b.Messages)-1]
			last.Content += strings.Repeat("x", missing)
			return encode(b)
		}
		role := "user"
		if b.Messages[len(b.Messages)-1].Role == "user" {
			role = "assistant"
		}
		b.Messages = append(b.Messages, message{role, words(rng, min(missing-64, 2048))})
	}
}

func encode(b body) []byte {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // strings always have a JSON form
	}
	return text
}

// words returns text of n bytes that has nothing to escape.
func words(rng *rand.Rand, n int) string {
	const letters = "etaoinshrdlucmfw"
	text := make([]byte, n)
	for i := range text {
		if text[i] = ' '; rng.IntN(6) > 0 {
			text[i] = letters[rng.IntN(len(letters))]
		}
	}
	return string(text)
}
