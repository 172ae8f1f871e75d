package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// endpointHeader is the response header in which the fake model servers name
// themselves.
const endpointHeader = "x-bench-endpoint"

// Client asks an HTTP server, such as a gateway or the router's own front.
type Client struct {
	url       string
	client    *http.Client
	bodies    [][]byte
	endpoints map[string]bool
}

// NewClient returns a client of the server at base, "http://host:port", which keeps up
// to so many connections. Answers must come from one of the endpoints.
func NewClient(base string, connections int, bodies [][]byte, endpoints []string) *Client {
	c := &Client{url: base + "/v1/chat/completions", bodies: bodies, endpoints: make(map[string]bool)}
	for _, e := range endpoints {
		c.endpoints[e] = true
	}
	c.client = &http.Client{Transport: &http.Transport{MaxIdleConns: connections, MaxIdleConnsPerHost: connections, DisableCompression: true}}
	return c
}

// Close closes idle connections.
func (c *Client) Close() { c.client.CloseIdleConnections() }

// Exchange is the request numbered n, timed until the last byte of the answer.
func (c *Client) Exchange(ctx context.Context, n int) (after func() error, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(c.bodies[n%len(c.bodies)]))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %d: %.200s", resp.StatusCode, body)
	case !c.endpoints[resp.Header.Get(endpointHeader)]:
		return nil, fmt.Errorf("answered by %q, which is no endpoint", resp.Header.Get(endpointHeader))
	case string(body) != answerBody:
		return nil, fmt.Errorf("the answer did not come through as it was: %.200s", body)
	}
	return nil, nil
}

// Answer is the body that every fake model server answers with, and Header the response
// header in which it names itself.
func Answer() (body, header string) { return answerBody, endpointHeader }
