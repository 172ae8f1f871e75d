package kittest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// RedisHandle is a redis-server process that a test may kill, halt and start again.
type RedisHandle struct {
	// Address is "127.0.0.1:port", the same before and after a restart.
	Address string

	t    testing.TB
	dir  string
	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// Redis starts a redis-server process on a free loopback port and returns its address.
// It is stopped when the test ends.
func Redis(t testing.TB) string {
	t.Helper()
	return StartRedis(t).Address
}

// StartRedis starts a redis-server process on a free loopback port. args are further
// options, such as "--maxmemory", "1mb". It keeps nothing over a restart unless they say
// so.
func StartRedis(t testing.TB, args ...string) *RedisHandle {
	t.Helper()
	return startRedis(t, FreePort(t), args)
}

// StartRedisTLS starts a redis-server process that takes TLS connections only, and asks
// for certificates of the authority in certFile.
func StartRedisTLS(t testing.TB, certFile, keyFile string, args ...string) *RedisHandle {
	t.Helper()
	port := FreePort(t)
	return startRedis(t, port, append([]string{
		"--port", "0", "--tls-port", strconv.Itoa(port), "--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", certFile,
	}, args...))
}

func startRedis(t testing.TB, port int, args []string) *RedisHandle {
	t.Helper()
	h := &RedisHandle{Address: "127.0.0.1:" + strconv.Itoa(port), t: t, dir: t.TempDir()}
	h.args = append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", h.dir, "--save", "", "--appendonly", "no", "--loglevel", "warning",
		"--protected-mode", "no",
	}, args...)
	h.start()
	t.Cleanup(h.Kill)
	return h
}

// Kill ends the process as kill -9 does. It does nothing if there is none.
func (h *RedisHandle) Kill() {
	if h.cmd == nil {
		return
	}
	_ = h.cmd.Process.Kill() // it may have ended
	<-h.done
	h.cmd = nil
}

// Restart starts the server again on the same port, killing it first if it still runs.
func (h *RedisHandle) Restart() {
	h.t.Helper()
	h.Kill()
	h.start()
}

// Halt stops the process from running, so that connections stay open and nothing is
// answered, until Resume.
func (h *RedisHandle) Halt() { h.signal(syscall.SIGSTOP) }

// Resume lets a halted process go on.
func (h *RedisHandle) Resume() { h.signal(syscall.SIGCONT) }

func (h *RedisHandle) signal(s syscall.Signal) {
	h.t.Helper()
	if err := h.cmd.Process.Signal(s); err != nil {
		h.t.Fatalf("signal redis-server: %v", err)
	}
}

// Client returns a client of the server, closed when the test ends.
func (h *RedisHandle) Client() *goredis.Client { return RedisClient(h.t, h.Address) }

// RedisClient returns a client of the server at the address, closed when the test ends.
func RedisClient(t testing.TB, address string) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: address, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (h *RedisHandle) start() {
	h.t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		h.t.Fatalf("%v: run test/setup/ready.sh", err)
	}
	args := h.args
	if len(args) > 0 && strings.HasSuffix(args[len(args)-1], ".conf") { // a sentinel's configuration comes first
		args = append([]string{args[len(args)-1]}, "--sentinel")
	}
	log, err := os.OpenFile(filepath.Join(h.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	h.cmd = exec.Command(binary, args...) //nolint:gosec // a test's own server
	h.cmd.Stdout, h.cmd.Stderr = log, log
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := h.cmd.Start(); err != nil {
		h.t.Fatalf("start redis-server: %v", err)
	}
	h.done = make(chan struct{})
	go func(c *exec.Cmd, done chan struct{}) {
		_ = c.Wait() // it is killed
		close(done)
	}(h.cmd, h.done)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", h.Address, time.Second)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(filepath.Join(h.dir, "log"))
			h.t.Fatalf("redis-server at %s: %v\n%s", h.Address, err, text)
		}
	}
}

// RedisCluster starts a Redis Cluster of n masters without replicas and returns them.
// Slots are spread evenly.
func RedisCluster(t testing.TB, n int) []*RedisHandle {
	t.Helper()
	const slots = 16384
	nodes := make([]*RedisHandle, n)
	for i := range nodes {
		port := FreePort(t)
		nodes[i] = startRedis(t, port, []string{
			"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000",
			"--cluster-port", strconv.Itoa(FreePort(t)), "--cluster-announce-ip", "127.0.0.1",
		})
	}
	ctx := context.Background()
	for i, h := range nodes {
		c := h.Client()
		from, to := slots*i/n, slots*(i+1)/n-1
		if err := c.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
			t.Fatalf("give slots to %s: %v", h.Address, err)
		}
		if err := c.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			t.Fatalf("set the epoch of %s: %v", h.Address, err)
		}
		for _, other := range nodes[:i] {
			host, port, _ := net.SplitHostPort(other.Address)
			if err := c.Do(ctx, "CLUSTER", "MEET", host, port, busPort(t, other)).Err(); err != nil {
				t.Fatalf("join %s: %v", h.Address, err)
			}
		}
	}
	Eventually(t, "the Redis Cluster is whole", func() bool {
		for _, h := range nodes {
			info, err := h.Client().ClusterInfo(ctx).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n)) {
				return false
			}
		}
		return true
	})
	return nodes
}

// busPort is the port on which the nodes of a cluster speak with each other.
func busPort(t testing.TB, h *RedisHandle) string {
	t.Helper()
	for i, a := range h.args {
		if a == "--cluster-port" {
			return h.args[i+1]
		}
	}
	t.Fatalf("%s is no node of a cluster", h.Address)
	return ""
}

// RedisSentinels is a server with a replica, and sentinels that watch them.
type RedisSentinels struct {
	// Master is the name that the sentinels know the pair by.
	Master string
	// Servers are the first master and its replica.
	Servers [2]*RedisHandle
	// Sentinels are the sentinels.
	Sentinels []*RedisHandle
}

// StartRedisSentinels starts a master, its replica and n sentinels, which name another
// master when half of them have not heard of the old one for a second.
func StartRedisSentinels(t testing.TB, n int) *RedisSentinels {
	t.Helper()
	s := &RedisSentinels{Master: "pointsman"}
	s.Servers[0] = StartRedis(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(s.Servers[0].Address)
	s.Servers[1] = StartRedis(t, "--replicaof", host+" "+port)
	ctx := context.Background()
	Eventually(t, "the replica follows", func() bool {
		info, err := s.Servers[1].Client().Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	for range n {
		dir, at := t.TempDir(), FreePort(t)
		file := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\nprotected-mode no\nsentinel monitor %s %s %s %d\nsentinel down-after-milliseconds %s 1000\nsentinel failover-timeout %s 3000\n",
			at, dir, s.Master, host, port, n/2+1, s.Master, s.Master)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h := &RedisHandle{Address: "127.0.0.1:" + strconv.Itoa(at), t: t, dir: dir, args: []string{file}}
		h.start()
		t.Cleanup(h.Kill)
		s.Sentinels = append(s.Sentinels, h)
	}
	Eventually(t, "the sentinels know the replica and each other", func() bool {
		for _, h := range s.Sentinels {
			v, err := h.Client().Do(ctx, "SENTINEL", "MASTER", s.Master).Slice()
			if err != nil || field(v, "num-slaves") != "1" || field(v, "num-other-sentinels") != strconv.Itoa(n-1) {
				return false
			}
		}
		return true
	})
	return s
}

// field finds a value in a list of names and values.
func field(list []any, name string) string {
	for i := 0; i+1 < len(list); i += 2 {
		if list[i] == name {
			return fmt.Sprint(list[i+1])
		}
	}
	return ""
}
