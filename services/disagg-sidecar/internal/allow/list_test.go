package allow

import (
	"testing"
	"time"

	"github.com/pointsman/pointsman/internal/kit/roster"
)

func table(t *testing.T, endpoints ...roster.Endpoint) *roster.Table {
	t.Helper()
	made, err := roster.NewTable(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func endpoint(id, host string, port uint16) roster.Endpoint {
	return roster.Endpoint{ID: roster.ID(id), Host: host, Port: port}
}

func allows(t *testing.T, l *List, address string) bool {
	t.Helper()
	target, ok := Parse(address)
	if !ok {
		t.Fatalf("%q cannot be read", address)
	}
	return l.Allows(target)
}

// D16: the reference goes by the host alone; here the port counts as well (router#979).
func TestD16HostAndPort(t *testing.T) {
	l := NewList([]Target{{"also.example", 9}})
	if l.Heard() || allows(t, l, "10.244.1.100:8000") || !allows(t, l, "also.example:9") {
		t.Error("before a table was heard somebody of the pool is allowed, or who always is is not")
	}
	l.Hear("c", table(t, endpoint("a", "10.244.1.100", 8000), endpoint("b", "valid-pod", 8000), endpoint("c", "valid-pod.ns.svc.cluster.local", 8000), endpoint("d", "fd00::1", 8000), endpoint("e", "::1", 8000)), time.Now())
	for address, want := range map[string]bool{
		"10.244.1.100:8000": true, "valid-pod:8000": true, "Valid-Pod.:8000": true, "valid-pod.ns.svc.cluster.local:8000": true,
		"[::1]:8000": true, "[fd00:0:0::0001]:8000": true, "[::ffff:10.244.1.100]:8000": true, "also.example:9": true,
		"10.244.1.100:8001": false, "10.244.1.100:9999": false, "valid-pod:8001": false, "10.0.0.1:8000": false, "evil-pod:8000": false,
		"[::1]:22": false, "169.254.169.254:80": false, "10.244.1.100.evil.example:8000": false, "localhost:8000": false,
	} {
		if got := allows(t, l, address); got != want {
			t.Errorf("%s: allowed %v, want %v", address, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{
		"", "a", "a:", ":8000", "a:0", "a:65536", "a:x", "a:-1", "http://a:80", "a:80/x", "u@a:80", "fe80::1:80", "[fe80::1%eth0]:80", "a b:80", "a\t:80", `a\b:80`, "a:80#", "a?:80",
	} {
		if target, ok := Parse(bad); ok {
			t.Errorf("%q is read as %s", bad, target)
		}
	}
	for in, want := range map[string]string{"[::1]:8000": "[::1]:8000", "A.Example.:80": "a.example:80", "10.0.0.5:8000": "10.0.0.5:8000"} {
		if target, ok := Parse(in); !ok || target.String() != want {
			t.Errorf("%q is read as %s, %v", in, target, ok)
		}
	}
}

func TestTablesComeAndGo(t *testing.T) {
	l, now := NewList(nil), time.Now()
	one, two := table(t, endpoint("a", "10.0.0.1", 1)), table(t, endpoint("a", "10.0.0.1", 1), endpoint("b", "10.0.0.2", 1))
	l.Hear("c1", two, now)
	l.Hear("c2", two, now)
	l.Hear("c1", one, now.Add(time.Second))
	if !allows(t, l, "10.0.0.2:1") {
		t.Error("who one collector still sees is not allowed")
	}
	l.Hear("c2", one, now.Add(2*time.Second))
	if allows(t, l, "10.0.0.2:1") || !allows(t, l, "10.0.0.1:1") {
		t.Error("who is gone for all is allowed")
	}
	l.Hear("c2", two, now.Add(3*time.Second))
	l.Hear("c1", one, now.Add(30*time.Second)) // c2 has fallen silent
	if allows(t, l, "10.0.0.2:1") {
		t.Error("a table of a collector that has gone counts")
	}
	moved := table(t, endpoint("a", "10.0.0.9", 1)) // an id with another address
	l.Hear("c1", moved, now.Add(31*time.Second))
	if allows(t, l, "10.0.0.1:1") || !allows(t, l, "10.0.0.9:1") {
		t.Error("a changed address is not noticed")
	}
}

// FuzzParse checks that what is read has one spelling, which is read as the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"10.0.0.5:8000", "[::1]:80", "A:1", "a%:1", "http://a:80", "[::ffff:1.2.3.4]:5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		target, ok := Parse(in)
		if !ok {
			return
		}
		if again, ok := Parse(target.String()); !ok || again != target {
			t.Fatalf("%q is %s, which is %v, %v", in, target, again, ok)
		}
	})
}
