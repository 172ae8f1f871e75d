package envoy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// answers has servers answer in all kinds of ways: what they say comes to the client as it
// is, and is accounted for as what it is.
func (r *rig) answers(t *testing.T, w way) {
	for _, c := range []struct {
		name, contentType, encoding string
		status, size                int
	}{
		{"empty", "application/json", "", 200, 0},
		{"one byte", "text/plain", "", 200, 1},
		{"62,000 bytes", "application/octet-stream", "", 200, 62_000},
		{"62,001 bytes", "application/octet-stream", "", 200, 62_001},
		{"65,537 bytes", "application/octet-stream", "", 200, 65_537},
		{"5 MB", "application/octet-stream", "", 200, 5_000_000},
		{"A10: not the JSON that it says it is", "application/json", "", 200, 20},
		{"B041: 503 in plain text", "text/plain", "", 503, 19},
		{"B041: 502 in HTML", "text/html", "", 502, 300},
		{"B041: 204", "", "", 204, 0},
		{"B062: compressed, of the length that it says", "application/json", "gzip", 200, 9_287},
		{"404", "text/plain", "", 404, 9},
		{"redirect", "text/plain", "", 307, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			mark := r.mark(t)
			a := r.send(t, w.name, request{body: chat(300), headers: map[string]string{
				headerDo: "raw", "X-Test-Status": strconv.Itoa(c.status), "X-Test-Size": strconv.Itoa(c.size),
				"X-Test-Content-Type": c.contentType, "X-Test-Content-Encoding": c.encoding, "Accept-Encoding": "gzip",
			}})
			if a.status != c.status || digest(a.body) != digest(filler(c.size)) {
				t.Errorf("status %d with %d bytes, digest %.8s", a.status, len(a.body), digest(a.body))
			}
			if got := a.headers.Get("Content-Type"); got != c.contentType && c.contentType != "" {
				t.Errorf("content-type %q", got)
			}
			if got := a.headers.Get("Content-Encoding"); got != c.encoding {
				t.Errorf("content-encoding %q", got)
			}
			if got := a.headers.Get("Content-Length"); got != "" && got != strconv.Itoa(c.size) {
				t.Errorf("content-length %q", got)
			}
			o := r.outcomes.since(t, mark, 1)[0]
			if o.endpoint == "" || o.finished.GetCompleted() != (c.status < 400 && w.name != "duplex-skip") {
				t.Errorf("the outcome is that %q has completed %t", o.endpoint, o.finished.GetCompleted())
			}
		})
	}
}

// events has a server stream events: each comes to the client before the next is sent, in
// ways that do not buffer, and the usage at the end is seen (B035).
func (r *rig) events(t *testing.T, w way) {
	if !w.whole {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("one by one, h2 %t", h2), func(t *testing.T) { r.oneByOne(t, w, h2) })
		}
	}
	for _, size := range []int{100_000, 1_500_000} {
		t.Run(fmt.Sprintf("B051: a line of %d bytes", size), func(t *testing.T) {
			a := r.send(t, w.name, request{body: chat(300), headers: map[string]string{headerDo: "line", "X-Test-Size": strconv.Itoa(size)}})
			if a.status != http.StatusOK || !strings.Contains(string(a.body), string(filler(size))) || !strings.HasSuffix(string(a.body), "data: [DONE]\n\n") {
				t.Errorf("status %d, %d bytes", a.status, len(a.body))
			}
		})
	}
}

func (r *rig) oneByOne(t *testing.T, w way, h2 bool) {
	mark := r.mark(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := request{body: chat(300), headers: map[string]string{headerDo: "step"}}.make(ctx, r.url(w.name))
	if err != nil {
		t.Fatal(err)
	}
	c := r.h1
	if h2 {
		c = r.h2
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for i := range steps {
		line, err := lines.ReadString('\n')
		if err != nil || !strings.Contains(line, fmt.Sprintf(`"content":"%d"`, i)) {
			t.Fatalf("event %d: %q, %v", i, line, err)
		}
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		select {
		case r.servers.next <- struct{}{}: // the server does not go on before
		case <-ctx.Done():
			t.Fatal("the server does not wait for event ", i)
		}
	}
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("the end is %q, %v", rest, err)
	}
	o := r.outcomes.since(t, mark, 1)[0]
	if w.blind {
		return
	}
	if f := o.finished; !o.firstToken || !f.GetCompleted() || f.GetPromptTokenCount() != 7 || f.GetOutputTokenCount() != 5 {
		t.Errorf("first token %t, outcome %v", o.firstToken, f)
	}
}
