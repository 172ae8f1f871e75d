package bus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/pointsman/pointsman/internal/kit/kittest"
	"github.com/pointsman/pointsman/internal/kit/rpc"
)

func TestUserAndPassword(t *testing.T) {
	natsServer := kittest.StartNATS(t, 0, func(o *server.Options) { o.Username, o.Password = "u", "w" })
	newProcess(t, natsServer.URL, "p", "right", func(c *Config) { c.User, c.Password = "u", "w" }).start(t)

	wrong := newProcess(t, natsServer.URL, "p", "wrong", func(c *Config) { c.User, c.Password = "u", "guess" })
	ready, _ := wrong.run(t)
	kittest.Eventually(t, "the log tells why", func() bool { return wrong.log.count("Authorization Violation") == 1 })
	if wrong.log.count("guess") != 0 {
		t.Errorf("the log holds the password:\n%s", wrong.log)
	}
	select {
	case <-ready:
		t.Error("ready with a wrong password")
	default:
	}
}

func TestCredentialsFile(t *testing.T) {
	operator, account, user := pair(t, nkeys.CreateOperator), pair(t, nkeys.CreateAccount), pair(t, nkeys.CreateUser)
	operatorClaims := jwt.NewOperatorClaims(public(t, operator))
	accountClaims := jwt.NewAccountClaims(public(t, account))
	accountJWT, err := accountClaims.Encode(operator)
	if err != nil {
		t.Fatal(err)
	}
	userJWT, err := jwt.NewUserClaims(public(t, user)).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	creds, err := jwt.FormatUserConfig(userJWT, seed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operatorClaims.Encode(operator); err != nil {
		t.Fatal(err)
	}
	natsServer := kittest.StartNATS(t, 0, func(o *server.Options) {
		resolver := &server.MemAccResolver{}
		if err := resolver.Store(public(t, account), accountJWT); err != nil {
			t.Fatal(err)
		}
		o.TrustedOperators, o.AccountResolver = []*jwt.OperatorClaims{operatorClaims}, resolver
	})
	file := filepath.Join(t.TempDir(), "user.creds")
	if err := os.WriteFile(file, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	a := newProcess(t, natsServer.URL, "p", "a", func(c *Config) { c.CredsFile = file }).start(t)
	natsServer.Restart()
	kittest.Eventually(t, "reconnection with the same file", func() bool { return a.log.count("connected to NATS") == 2 })
}

func TestTLSFilesAreReadAtEveryConnection(t *testing.T) {
	dir := t.TempDir()
	first, second := newAuthority(t), newAuthority(t)
	identity := first
	natsServer := kittest.StartNATS(t, 0, func(o *server.Options) {
		o.TLSConfig = &tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{identity.issue(t, "server")},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    identity.pool(),
		}
	})
	files := rpc.TLSConfig{
		CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
		ServerName: "localhost",
	}
	identity.write(t, files)
	a := newProcess(t, natsServer.URL, "p", "a", func(c *Config) { c.TLS = files }).start(t)

	natsServer.Stop()
	kittest.Eventually(t, "the loss is noticed", func() bool { return !a.Connected() })
	identity = second
	natsServer.Restart()
	kittest.Eventually(t, "the unknown authority is told", func() bool { return a.log.count("unknown authority") > 0 })
	if a.Connected() {
		t.Error("connected to a server of an unknown authority")
	}
	identity.write(t, files)
	kittest.Eventually(t, "connected with the new files", a.Connected)
}

func pair(t *testing.T, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	kp, err := create()
	if err != nil {
		t.Fatal(err)
	}
	return kp
}

func public(t *testing.T, kp nkeys.KeyPair) string {
	t.Helper()
	s, err := kp.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// authority is a certificate authority.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// write puts the authority and a certificate for us into the files.
func (a *authority) write(t *testing.T, files rpc.TLSConfig) {
	t.Helper()
	own := a.issue(t, "client")
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		files.CAFile:   {Type: "CERTIFICATE", Bytes: a.cert.Raw},
		files.CertFile: {Type: "CERTIFICATE", Bytes: own.Certificate[0]},
		files.KeyFile:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
