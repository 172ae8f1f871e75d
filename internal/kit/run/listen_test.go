package run_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pointsman/pointsman/internal/kit/run"
)

func TestListenRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	socket := filepath.Join(dir, "taken.sock")
	takenSocket, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer takenSocket.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		name    string
		address string
		want    string // after "listen.http.address: listen on <address>: "
	}{
		{
			name:    "occupied port",
			address: taken.Addr().String(),
			want:    "address already in use; choose another with --set listen.http.address=HOST:PORT or stop the process that holds it",
		},
		{
			name:    "no port",
			address: "127.0.0.1",
			want:    "missing port in address; it must be HOST:PORT, such as 127.0.0.1:8080 or :8080",
		},
		{
			name:    "another machine's address",
			address: "192.0.2.1:8080",
			want:    "cannot assign requested address on this machine; set another with --set listen.http.address=HOST:PORT",
		},
		{
			name:    "occupied socket",
			address: "unix://" + socket,
			want:    "address already in use; choose another with --set listen.http.address=unix:///PATH or stop the process that holds it",
		},
		{
			name:    "a file that is no socket is kept",
			address: "unix://" + file,
			want:    "address already in use; choose another with --set listen.http.address=unix:///PATH or stop the process that holds it",
		},
		{
			name:    "no directory for the socket",
			address: "unix://" + filepath.Join(dir, "none", "x.sock"),
			want:    "no such file or directory; create the directory first",
		},
		{
			name:    "path too long",
			address: "unix:///tmp/" + strings.Repeat("x", 200),
			want:    "invalid argument; the path of a socket must be shorter than 108 bytes",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := run.Listen(t.Context(), "listen.http.address", tt.address)
			if err == nil {
				l.Close()
				t.Fatal("no error")
			}
			want := "listen.http.address: listen on " + tt.address + ": " + tt.want
			if d := cmp.Diff(want, err.Error()); d != "" {
				t.Errorf("error (-want +got):\n%s", d)
			}
		})
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the file was touched: %v", err)
	}
}

func TestListenReplacesTheSocketOfADeadProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the test needs a socket file that nobody serves: %v", err)
	}

	l, err := run.Listen(t.Context(), "listen.grpc.address", "unix://"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if want := "unix://" + path; run.Address(l) != want {
		t.Errorf("Address = %s, want %s", run.Address(l), want)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("dial the new socket: %v", err)
	}
	conn.Close()
}

func TestListenOnAFreePort(t *testing.T) {
	l, err := run.Listen(t.Context(), "admin.address", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a := run.Address(l); !strings.HasPrefix(a, "127.0.0.1:") || strings.HasSuffix(a, ":0") {
		t.Errorf("Address = %s, want the port that was given", a)
	}
}
