package extproc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"path/filepath"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pointsman/pointsman/internal/kit/rpc"
)

// selfSignedFor is how long a certificate that is made at the start is good for. No
// proxy checks it, so it only has to outlive the process.
const selfSignedFor = 10 * 365 * 24 * time.Hour

// Credentials returns what the listener is to be secured with: a directory's
// certificate that is followed when it changes, one that is made now, or none. failed is
// told, once, when new files cannot be used and the old ones stay.
func (c Config) Credentials(failed func(error)) (credentials.TransportCredentials, error) {
	if !c.SecureServing {
		return insecure.NewCredentials(), nil
	}
	if c.CertPath != "" {
		files := rpc.TLSConfig{CertFile: filepath.Join(c.CertPath, "tls.crt"), KeyFile: filepath.Join(c.CertPath, "tls.key")}
		cfg, err := files.Server(failed, "h2")
		if err != nil {
			return nil, fmt.Errorf("certPath: %w", err)
		}
		return credentials.NewTLS(cfg), nil
	}
	cert, err := SelfSigned(time.Now())
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}), nil
}

// SelfSigned makes a certificate for a server whose clients encrypt and do not check
// whom they talk to. It is valid for ten years from an hour before now.
func SelfSigned(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Pointsman"}, CommonName: "pointsman-router"},
		DNSNames:     []string{"localhost", "pointsman-router"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(selfSignedFor),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},

		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
