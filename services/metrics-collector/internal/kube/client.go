package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	userAgent = "pointsman-metrics-collector"
	// answerTimeout is how long a list, and the beginning of a watch, may take.
	answerTimeout = 30 * time.Second
	maxListBytes  = 256 << 20
	maxErrorBytes = 4 << 10
)

// client asks the API server.
type client struct {
	http *http.Client
	base string // without a slash at the end
}

// newClient returns a client that reaches out to nobody yet.
func newClient(kubeconfig string) (*client, error) {
	cfg, err := restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = userAgent
	// A peer that is gone without a word is noticed in 15 s, not in 45, and one that is
	// back is found soon after: an attempt that hangs keeps nobody long.
	dialer := &net.Dialer{Timeout: 2 * time.Second, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 6 * time.Second, Interval: 3 * time.Second, Count: 3}}
	cfg.Dial = dialer.DialContext
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	return &client{h, strings.TrimSuffix(base.String(), "/")}, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("kubernetes: no cluster around; run as a pod with a service account's token, or set kubernetes.kubeconfig: %w", err)
		}
		return cfg, nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubernetes.kubeconfig: %w", err)
	}
	return cfg, nil
}

// page is one answer to a list.
type page struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// list asks for one page. The error is a *fault.
func (c *client) list(ctx context.Context, path string, query url.Values) (*page, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	body, err := c.get(ctx, path, query)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	p := &page{}
	text, err := io.ReadAll(io.LimitReader(body, maxListBytes))
	if err != nil {
		return nil, &fault{unreachable, err}
	}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, &fault{garbled, err}
	}
	return p, nil
}

// watch asks for events. The context must end when they are no longer read. The error
// is a *fault.
func (c *client) watch(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(answerTimeout, cancel)
	body, err := c.get(ctx, path, query)
	if err != nil || !late.Stop() {
		cancel()
		if err == nil {
			body.Close()
			err = &fault{unreachable, context.DeadlineExceeded}
		}
		return nil, err
	}
	return &watching{body, cancel}, nil
}

// watching is a watch's answer, whose closing ends the request.
type watching struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (w *watching) Close() error {
	w.cancel()
	return w.ReadCloser.Close()
}

func (c *client) get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, &fault{refused, err}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &fault{unreachable, err}
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes)) // the status says enough
	return nil, refusal(resp.StatusCode, text)
}

// close lets idle connections go.
func (c *client) close() { c.http.CloseIdleConnections() }
