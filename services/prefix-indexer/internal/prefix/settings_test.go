package prefix

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/sdk/scorer"
	"github.com/pointsman/pointsman/services/prefix-indexer/internal/index"
)

func TestParseSettings(t *testing.T) {
	with := func(change func(*Settings)) Settings {
		s := DefaultSettings()
		change(&s)
		return s
	}
	cases := map[string]struct {
		text string
		want Settings
	}{
		"nothing":                         {"", DefaultSettings()},
		"an empty object":                 {" {} ", DefaultSettings()},
		"the documented example":          {`{"hashBlockSize": 5, "maxPrefixBlocksToMatch": 256, "lruCapacityPerServer": 31250}`, with(func(s *Settings) { s.BlockSize = 5 })},
		"keys in any case":                {`{"HASHBLOCKSIZE": 128, "maxprefixblockstomatch": 12}`, with(func(s *Settings) { s.BlockSize, s.MaxBlocks = 128, 12 })},
		"null is not set":                 {`{"hashBlockSize": null, "autoTune": null}`, DefaultSettings()},
		"newer: bytes":                    {`{"blockSize": 16}`, with(func(s *Settings) { s.BlockSize = 16 })},
		"newer: tokens":                   {`{"blockSizeTokens": 16, "autoTune": true}`, with(func(s *Settings) { s.BlockSize, s.AutoTune = 64, true })},
		"newer: most tokens":              {`{"blockSizeTokens": 64, "maxPrefixTokensToMatch": 1024}`, with(func(s *Settings) { s.BlockSize, s.MaxTokens = 256, 1024 })},
		"fewer tokens than one block":     {`{"maxPrefixTokensToMatch": 3}`, with(func(s *Settings) { s.MaxTokens = 3 })},
		"most tokens unset":               {`{"maxPrefixTokensToMatch": 0, "maxPrefixBlocksToMatch": 3}`, with(func(s *Settings) { s.MaxBlocks = 3 })},
		"F35: more blocks than are sent":  {`{"hashBlockSize": 4, "maxPrefixBlocksToMatch": 50000}`, with(func(s *Settings) { s.BlockSize, s.MaxBlocks = 4, scorer.MaxHashes })},
		"capacity 0 is the default":       {`{"lruCapacityPerServer": 0}`, DefaultSettings()},
		"capacity below 0 is the default": {`{"lruCapacityPerServer": -7}`, DefaultSettings()},
		"capacity":                        {`{"lruCapacityPerServer": 3}`, with(func(s *Settings) { s.Capacity = 3 })},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, faults := ParseSettings([]byte(c.text))
			if len(faults) > 0 {
				t.Fatalf("faults: %v", faults)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFaultsOfSettings(t *testing.T) {
	cases := map[string]struct {
		text string
		want []string // "key: part of the message"
	}{
		"block size 0":            {`{"hashBlockSize": 0}`, []string{"hashBlockSize: at least 1"}},
		"block size below 0":      {`{"hashBlockSize": -64}`, []string{"hashBlockSize: at least 1"}},
		"endless block size":      {`{"hashBlockSize": 1048577}`, []string{"hashBlockSize: at most 1048576"}},
		"F46: tokens 0":           {`{"autoTune": false, "blockSizeTokens": 0}`, []string{"blockSizeTokens: at least 1"}},
		"no blocks":               {`{"maxPrefixBlocksToMatch": 0}`, []string{"maxPrefixBlocksToMatch: at least 1"}},
		"tokens below 0":          {`{"maxPrefixTokensToMatch": -1}`, []string{"maxPrefixTokensToMatch: at least 0"}},
		"endless capacity":        {`{"lruCapacityPerServer": 999999999999}`, []string{"lruCapacityPerServer: at most"}},
		"a string":                {`{"hashBlockSize": "64"}`, []string{"hashBlockSize: whole number"}},
		"a fraction":              {`{"hashBlockSize": 1.5}`, []string{"hashBlockSize: whole number"}},
		"beyond any number":       {`{"hashBlockSize": 99999999999999999999}`, []string{"hashBlockSize: whole number"}},
		"autoTune is a word":      {`{"autoTune": "yes"}`, []string{"autoTune: true or false"}},
		"a slip of the pen":       {`{"hashBlokSize": 64}`, []string{"hashBlokSize: did you mean hashBlockSize?"}},
		"another word":            {`{"temperature": 1}`, []string{"temperature: known here: hashBlockSize"}},
		"one key in two cases":    {`{"hashBlockSize": 1, "HashBlockSize": 2}`, []string{"hashBlockSize: set twice"}},
		"two spellings":           {`{"hashBlockSize": 64, "blockSizeTokens": 16}`, []string{"blockSizeTokens: only one of"}},
		"not an object":           {`[1]`, []string{": JSON object"}},
		"all faults are reported": {`{"hashBlockSize": 0, "lru": 1, "autoTune": 3}`, []string{"autoTune:", "hashBlockSize:", "lru:"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, faults := ParseSettings([]byte(c.text))
			if len(faults) != len(c.want) {
				t.Fatalf("faults %v, want %d", faults, len(c.want))
			}
			for _, want := range c.want {
				key, text, _ := strings.Cut(want, ":")
				found := false
				for _, f := range faults {
					found = found || f.GetKey() == key && strings.Contains(f.GetMessage(), strings.TrimSpace(text))
				}
				if !found {
					t.Errorf("faults %v lack %q", faults, want)
				}
			}
		})
	}
}

func TestSchemaNamesEveryKey(t *testing.T) {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Properties) != len(keys) {
		t.Errorf("%d properties for %d keys", len(s.Properties), len(keys))
	}
	for _, k := range keys {
		if s.Properties[k] == nil {
			t.Errorf("the schema lacks %s", k)
		}
	}
}

func FuzzParseSettings(f *testing.F) {
	for _, s := range []string{"", "{}", `{"hashBlockSize":5,"maxPrefixBlocksToMatch":256,"lruCapacityPerServer":31250}`, `{"blockSizeTokens":16,"autoTune":true}`, `{"a":{"b":[null]}}`, `{"hashBlockSize":1e999}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, faults := ParseSettings(text)
		if len(faults) > 0 {
			for _, f := range faults {
				if f.GetMessage() == "" {
					t.Errorf("fault without a message for %q", text)
				}
			}
			return
		}
		if s.BlockSize < 1 || s.BlockSize > mostBlockSize || s.MaxBlocks < 1 || s.MaxBlocks > scorer.MaxHashes || s.Capacity < 1 || s.Capacity > index.MaxCapacity {
			t.Errorf("%q gives %+v", text, s)
		}
	})
}
