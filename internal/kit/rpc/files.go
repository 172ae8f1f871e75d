package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// lookInterval is how often the files are looked at, at most.
const lookInterval = time.Second

// material is what the files hold at one time. It does not change.
type material struct {
	certificate *tls.Certificate // nil without certFile
	authorities *x509.CertPool   // nil without caFile
}

// files keeps material in step with the files of a TLSConfig.
type files struct {
	cfg     TLSConfig
	every   time.Duration
	failed  func(error) // told when a replacement cannot be used; once per distinct error
	mu      sync.Mutex
	held    *material
	stamps  [3]stamp // of what is held
	looked  time.Time
	trouble string // last error told
}

// stamp tells one content of a file from another.
type stamp struct {
	modified time.Time
	size     int64
}

// openFiles reads the files for the first time.
func openFiles(cfg TLSConfig, failed func(error)) (*files, error) {
	f := &files{cfg: cfg, every: lookInterval, failed: failed, stamps: look(cfg), looked: time.Now()}
	held, err := readMaterial(cfg)
	if err != nil {
		return nil, err
	}
	f.held = held
	return f, nil
}

// current returns what to use in a handshake now. While a replacement is half written or broken, that is the old one.
func (f *files) current() *material {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.looked) < f.every {
		return f.held
	}
	f.looked = now
	stamps := look(f.cfg)
	if stamps == f.stamps {
		return f.held
	}
	held, err := readMaterial(f.cfg)
	if err != nil {
		if text := err.Error(); text != f.trouble {
			f.trouble = text
			f.failed(err)
		}
		return f.held
	}
	f.held, f.stamps, f.trouble = held, stamps, ""
	return held
}

// look takes the stamps of the files. It is called before they are read, so a change in between is seen next time.
func look(cfg TLSConfig) (out [3]stamp) {
	for i, name := range []string{cfg.CertFile, cfg.KeyFile, cfg.CAFile} {
		if info, err := os.Stat(name); err == nil {
			out[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return out
}

// readMaterial reads the files; an error begins with the key of the one at fault.
func readMaterial(cfg TLSConfig) (*material, error) {
	m := new(material)
	if cfg.CertFile != "" {
		cert, err := readFile("tls.certFile", cfg.CertFile)
		if err != nil {
			return nil, err
		}
		key, err := readFile("tls.keyFile", cfg.KeyFile)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tls.certFile: load %s with key %s: %w", cfg.CertFile, cfg.KeyFile, err)
		}
		m.certificate = &pair
	}
	if cfg.CAFile != "" {
		text, err := readFile("tls.caFile", cfg.CAFile)
		if err != nil {
			return nil, err
		}
		m.authorities = x509.NewCertPool()
		if !m.authorities.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls.caFile: %s: no certificate in it; it must be PEM", cfg.CAFile)
		}
	}
	return m, nil
}

func readFile(key, name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err // the path is said once
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", key, name, err)
	}
	return text, nil
}
