package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is what EVALSHA asks for
	"encoding/hex"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Script is a Lua script, sent in full only to a server that does not know it.
type Script struct{ text, digest string }

// NewScript returns a script.
func NewScript(text string) *Script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // it is what EVALSHA asks for
	return &Script{text: text, digest: hex.EncodeToString(sum[:])}
}

// Run runs the script once and returns its answer as go-redis gives it. The script
// begins only once: a server that does not know it has done nothing.
func (s *Script) Run(ctx context.Context, r goredis.UniversalClient, keys []string, args ...any) (any, error) {
	v, err := s.run(ctx, r, "evalsha", s.digest, keys, args)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		return s.run(ctx, r, "eval", s.text, keys, args)
	}
	return v, err
}

func (s *Script) run(ctx context.Context, r goredis.UniversalClient, command, body string, keys []string, args []any) (any, error) {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, command, body, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	cmd := once{goredis.NewCmd(ctx, append(all, args...)...)}
	cmd.SetFirstKeyPos(3)
	if err := r.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Result()
}

// once is a command that a cluster client does not repeat after a broken connection.
type once struct{ *goredis.Cmd }

// NoRetry implements goredis.Cmder.
func (once) NoRetry() bool { return true }
