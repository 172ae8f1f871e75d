package kittest

import (
	"testing"
)

func TestRedisRestartsOnTheSamePort(t *testing.T) {
	h := StartRedis(t)
	c := h.Client()
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	h.Restart()
	Eventually(t, "the server is back and empty", func() bool {
		n, err := c.Exists(t.Context(), "k").Result()
		return err == nil && n == 0
	})
}

func TestRedisClusterSpreadsSlots(t *testing.T) {
	nodes := RedisCluster(t, 3)
	moved := 0
	for _, h := range nodes {
		if err := h.Client().Set(t.Context(), "k", "v", 0).Err(); err != nil {
			moved++
		}
	}
	if moved != 2 {
		t.Errorf("%d of 3 nodes send a key on to another", moved)
	}
}

func TestSentinelsNameAnotherMaster(t *testing.T) {
	s := StartRedisSentinels(t, 3)
	s.Servers[0].Kill()
	Eventually(t, "the replica is the master", func() bool {
		v, err := s.Sentinels[0].Client().Do(t.Context(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Master).StringSlice()
		return err == nil && len(v) == 2 && "127.0.0.1:"+v[1] == s.Servers[1].Address
	})
}
