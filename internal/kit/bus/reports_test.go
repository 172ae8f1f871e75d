package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	statev1 "github.com/pointsman/pointsman/proto/gen/go/pointsman/state/v1"
)

// The tests in this file are faults that users of other products have reported.

// B190: messages to a slow consumer were dropped inside of the client, and only
// a log line told.
func TestB190SlowConsumerIsCountedAndLeadsToAReset(t *testing.T) {
	url := kittest.NATS(t)
	a := newProcess(t, url, "p", "a").start(t)
	b := newProcess(t, url, "p", "b", func(c *Config) { c.PendingMessages = 10 })
	var resets atomic.Int64
	release := make(chan struct{})
	got := &inbox[*statev1.CollectorHeartbeat]{}
	Subscribe(b.Bus, Collector, newHeartbeat, func(m *statev1.CollectorHeartbeat, meta Meta) {
		<-release
		got.add(m, meta)
	})
	others := &inbox[*statev1.EndpointLoads]{}
	Subscribe(b.Bus, Load, func() *statev1.EndpointLoads { return &statev1.EndpointLoads{} }, others.add)
	b.OnReset(func() { resets.Add(1) })
	b.start(t)

	out := heartbeatPublisher(a)
	for i := range uint64(100) {
		publish(t, out, i+1)
	}
	kittest.Eventually(t, "the drop is counted", func() bool {
		return b.tel.Value("pointsman_bus_errors_total", "subject", "collector", "kind", "slow_consumer") > 0
	})
	kittest.Eventually(t, "OnReset is called", func() bool { return resets.Load() > 0 })
	if b.log.count("slow_consumer") == 0 {
		t.Errorf("the log does not tell:\n%s", b.log)
	}
	loads := NewPublisher(a.Bus, Load, func(m *statev1.EndpointLoads, s *statev1.Stamp) { m.Stamp = s })
	if err := loads.Publish(&statev1.EndpointLoads{}); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "another subject is not held up", func() bool { return others.len() == 1 })

	close(release)
	publish(t, out, 101)
	kittest.Eventually(t, "the newest message arrives, telling of all that are lost", func() bool {
		messages, metas := got.all()
		lost := uint64(0)
		for _, m := range metas {
			lost += m.Gap
		}
		if n := len(messages); n > 0 && messages[n-1].GetStamp().GetSequence() == out.Sequence() {
			return lost > 0 && lost == out.Sequence()-uint64(n)
		}
		// The message may have come while the queue was still full.
		_ = out.Publish(&statev1.CollectorHeartbeat{})
		return false
	})
	if b.tel.Value("pointsman_bus_gaps_total", "subject", "collector") == 0 {
		t.Error("the gap is not counted")
	}
}

// B191: a message above the server's limit cut the connection, and later small
// ones failed too.
func TestB191MessageAboveTheLimitIsRefusedAndOthersAreUnaffected(t *testing.T) {
	const limit = 1 << 20 // the server's default
	a := newProcess(t, kittest.NATS(t), "p", "a")
	got := &inbox[*statev1.EndpointTable]{}
	Subscribe(a.Bus, Table, func() *statev1.EndpointTable { return &statev1.EndpointTable{} }, got.add)
	a.start(t)
	out := NewPublisher(a.Bus, Table, func(m *statev1.EndpointTable, s *statev1.Stamp) { m.Stamp = s })
	send := func(bytes int) error {
		return out.Publish(&statev1.EndpointTable{Endpoints: []*statev1.Endpoint{{Host: strings.Repeat("x", bytes)}}})
	}
	err := send(limit)
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "pointsman.v1.p.table") || !strings.Contains(err.Error(), "1048576") {
		t.Fatalf("publish = %v, want ErrTooLarge naming the subject and the limit", err)
	}
	if err := send(limit - 100); err != nil {
		t.Errorf("a message just below the limit: %v", err)
	}
	if err := send(128); err != nil {
		t.Errorf("a small message after a large one: %v", err)
	}
	kittest.Eventually(t, "the good messages arrive", func() bool { return got.len() == 2 })
	if _, metas := got.all(); !metas[0].First {
		t.Error("the first good message is not First")
	}
	checkValues(t, a, "pointsman_bus_errors_total{subject=table,kind=too_large}", 1)
	if a.log.count("lost the connection") != 0 {
		t.Errorf("the connection was lost:\n%s", a.log)
	}
}

// B191, the other direction: an answer above the limit.
func TestB191AnswerAboveTheLimitIsTold(t *testing.T) {
	a := newProcess(t, kittest.NATS(t), "p", "a")
	Respond(a.Bus, GetState, newStateQuestion, func(*statev1.GetStateRequest) *statev1.GetStateResponse {
		return stateOf(strings.Repeat("x", 1<<20))
	})
	a.start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan error, 1)
	go func() {
		_, err := Request(ctx, a.Bus, GetState, newStateQuestion(), newState)
		asked <- err
	}()
	kittest.Eventually(t, "the refusal is counted", func() bool {
		return a.tel.Value("pointsman_bus_errors_total", "subject", "get.state", "kind", "too_large") == 1
	})
	kittest.Eventually(t, "the log tells", func() bool { return a.log.count("an answer was not sent") == 1 })
	cancel()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("Request = %v, want the context's error", err)
	}
}

var oddNames = []string{
	"Qwen/Qwen2.5-7B Instruct", "a..b", "*", ">", "", "2001:db8::1", "[::1]:8000", ".", " ", "\t", "a.b", "ab",
	"a b", "x_", "x_64", "X_64", "d", "\x00", "\xff\xfe", "π", "pool", "Pool", "pool ", strings.Repeat("n", 64), strings.Repeat("n", 65),
	strings.Repeat("n", 66), "x_z" + strings.Repeat("0", 52), "$SYS", "_INBOX",
}

// B194: identifiers used as parts of subjects hold illegal characters.
func TestB194OddPoolNamesDoNotCross(t *testing.T) {
	url := kittest.NATS(t)
	pools := make([]*inbox[*statev1.CollectorHeartbeat], len(oddNames))
	processes := make([]*process, len(oddNames))
	for i, pool := range oddNames {
		processes[i] = newProcess(t, url, pool, fmt.Sprint("member-", i))
		pools[i] = heartbeats(processes[i])
		processes[i].start(t)
	}
	for i, p := range processes {
		if err := heartbeatPublisher(p).Publish(&statev1.CollectorHeartbeat{ScrapedEndpointCount: uint32(i)}); err != nil {
			t.Fatalf("pool %q: %v", oddNames[i], err)
		}
	}
	for i, pool := range pools {
		kittest.Eventually(t, fmt.Sprintf("pool %q hears itself", oddNames[i]), func() bool { return pool.len() >= 1 })
		if messages, _ := pool.all(); len(messages) != 1 || messages[0].GetScrapedEndpointCount() != uint32(i) {
			t.Errorf("pool %q got %v", oddNames[i], messages)
		}
	}
}

func TestB194TokensAreSafeAndDiffer(t *testing.T) {
	seen := make(map[string]string)
	check := func(name string) {
		token := Token(name)
		if other, ok := seen[token]; ok && other != name {
			t.Fatalf("%q and %q are both %q", name, other, token)
		}
		seen[token] = name
		if len(token) == 0 || len(token) > 2+104 {
			t.Fatalf("the token of %q has %d bytes", name, len(token))
		}
		if i := strings.IndexFunc(token, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", r)
		}); i >= 0 {
			t.Fatalf("the token of %q is %q", name, token)
		}
	}
	for _, name := range oddNames {
		check(name)
		check(Token(name)) // a name that looks like another's token
	}
	random := rand.New(rand.NewPCG(1, 2))
	const letters = "ab_x.*> 0\xff/"
	for range 20_000 {
		name := make([]byte, random.IntN(70))
		for i := range name {
			name[i] = letters[random.IntN(len(letters))]
		}
		check(string(name))
	}
}

// B195: a subject that is not what it looks like is never heard, in silence.
func TestB195StartIsRefusedIfMessagesDoNotComeBack(t *testing.T) {
	cases := []struct {
		name  string
		allow server.Permissions
		says  string
	}{
		{
			"publishing is allowed under a name with a wildcard inside a token, which is none",
			server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"pointsman.v1.po*.>"}},
				Subscribe: &server.SubjectPermission{Allow: []string{">"}},
			},
			`Permissions Violation for Publish to "pointsman.v1.pool.`,
		},
		{
			"subscribing is forbidden",
			server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{">"}},
				Subscribe: &server.SubjectPermission{Deny: []string{"pointsman.v1.pool.>"}},
			},
			`Permissions Violation for Subscription to "pointsman.v1.pool.`,
		},
		{
			"one subject is forbidden, the echo is not",
			server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{">"}},
				Subscribe: &server.SubjectPermission{Deny: []string{"pointsman.v1.pool.collector"}},
			},
			`Permissions Violation for Subscription to "pointsman.v1.pool.collector"`,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			user := &server.User{Username: "u", Password: "w", Permissions: &c.allow}
			natsServer := kittest.StartNATS(t, 0, func(o *server.Options) { o.Users = []*server.User{user} })
			a := newProcess(t, natsServer.URL, "pool", "a", func(c *Config) { c.User, c.Password = "u", "w" })
			heartbeats(a)
			ready, _ := a.run(t)
			kittest.Eventually(t, "the reason shows", func() bool { return strings.Contains(a.unready(), c.says) })
			if want := "allow this user to publish and subscribe on pointsman.v1.pool.>"; !strings.Contains(a.unready(), want) {
				t.Errorf("unready because %q, want the remedy %q", a.unready(), want)
			}
			if a.Connected() {
				t.Error("connected")
			}
			select {
			case <-ready:
				t.Error("ready")
			default:
			}
			kittest.Eventually(t, "the refusal is counted", func() bool {
				return a.tel.Value("pointsman_bus_errors_total", "kind", "permission") > 0
			})

			// Once the operator has mended it, nothing else need be done.
			user.Permissions = nil
			natsServer.Restart()
			await(t, "the bus is ready", ready)
		})
	}
}

// B195: leave for the pool's subjects is all that is needed.
func TestB195LeaveForThePoolIsEnough(t *testing.T) {
	allow := &server.SubjectPermission{Allow: []string{"pointsman.v1.pool.>"}}
	natsServer := kittest.StartNATS(t, 0, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "w", Permissions: &server.Permissions{Publish: allow, Subscribe: allow}}}
	})
	a := newProcess(t, natsServer.URL, "pool", "a", func(c *Config) { c.User, c.Password = "u", "w" })
	got := heartbeats(a)
	Respond(a.Bus, GetState, newStateQuestion, func(*statev1.GetStateRequest) *statev1.GetStateResponse { return stateOf("x") })
	a.start(t)
	publish(t, heartbeatPublisher(a), 1)
	kittest.Eventually(t, "a broadcast arrives", func() bool { return got.len() == 1 })
	if _, err := Request(within(t, patience), a.Bus, GetState, newStateQuestion(), newState); err != nil {
		t.Error(err)
	}
	if got, err := RequestMany(within(t, patience), a.Bus, GetState, newStateQuestion(), newState, quiet); err != nil || len(got) != 1 {
		t.Errorf("RequestMany = %v, %v", got, err)
	}
	checkValues(t, a, "pointsman_bus_errors_total{}", 0)
}
