package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// refused checks that a program ends by itself with the exit code of a refusal, and
// says why.
func refused(t *testing.T, p *process, why ...string) {
	t.Helper()
	if code := p.code(); code != 2 {
		t.Errorf("%s: exit code %d, want 2", p.name, code)
	}
	for _, want := range why {
		if !strings.Contains(p.stderr(), want) {
			t.Errorf("%s does not say %q:\n%s", p.name, want, p.stderr())
		}
	}
	if p.stdout() != "" {
		t.Errorf("%s printed %q", p.name, p.stdout())
	}
}

// onStore works on the etcd of a cell that does not run.
func onStore(t *testing.T, dir string, work func(*clientv3.Client)) {
	t.Helper()
	server, err := embedded.Start(t.Context(), filepath.Join(dir, "store"), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	work(client)
}

// records are all of a store: keys, values and revisions.
func records(t *testing.T, c *clientv3.Client) map[string]string {
	t.Helper()
	resp, err := c.Get(t.Context(), "/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, kv := range resp.Kvs {
		all[string(kv.Key)] = kv.String()
	}
	if len(all) < 5 {
		t.Fatalf("the store has only %v", all)
	}
	return all
}

// A data dir of another format is refused, and left as it is.
func TestDataDirOfAnotherVersion(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	if code := startDev(t, dir).terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var before map[string]string
	onStore(t, dir, func(c *clientv3.Client) {
		raw, err := proto.Marshal(&ohmv1.Meta{Value: "99"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Put(t.Context(), "/ohm/default/meta/format", string(raw)); err != nil {
			t.Fatal(err)
		}
		before = records(t, c)
	})
	refused(t, start(t, "ohm", "dev", "--data-dir", dir, "--address", "127.0.0.1:0"), `format "99"`, "another data dir")
	onStore(t, dir, func(c *clientv3.Client) {
		after := records(t, c)
		for key := range before {
			if before[key] != after[key] {
				t.Errorf("%s has changed", key)
			}
		}
		if len(after) != len(before) {
			t.Errorf("there were %d records, now there are %d", len(before), len(after))
		}
	})
}

func TestDataDirInUse(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	d := startDev(t, dir)
	refused(t, start(t, "ohm", "dev", "--data-dir", dir, "--address", "127.0.0.1:0"), dir, "another process uses it")
	d.run(batch("hello", 1)) // the first one does not mind
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	d, dir := startDev(t, shortDir(t)), shortDir(t)
	refused(t, start(t, "ohm", "dev", "--data-dir", dir, "--address", d.address), d.address, "in use")
	d.run(batch("hello", 1))
}

// certificate writes a certificate for this machine that signs itself.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ohm test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	rawKey, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, raw []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", rawKey)
}

// An address that others can reach needs TLS and a token, and then asks everybody for it.
func TestNonLoopbackNeedsTLSAndToken(t *testing.T) {
	t.Parallel()
	dir, files := shortDir(t), t.TempDir()
	cert, key := certificate(t, files)
	token, wrong := filepath.Join(files, "token"), filepath.Join(files, "wrong")
	for path, text := range map[string]string{token: "open-sesame\n", wrong: "open-barley\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range [][]string{
		nil,
		{"--tls-cert", cert, "--tls-key", key},
		{"--token-file", token},
	} {
		args := append([]string{"dev", "--data-dir", dir, "--address", "0.0.0.0:0"}, flags...)
		refused(t, start(t, "ohm", args...), "can be reached from other machines", "--token-file")
	}

	d := startDevAt(t, dir, "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key, "--token-file", token)
	_, port, err := net.SplitHostPort(d.address)
	if err != nil {
		t.Fatal(err)
	}
	c := client{t, "127.0.0.1:" + port}
	hello := c.job(batch("hello", 2))
	c.ohm("--tls-ca", cert, "--token-file", token, "run", hello, "--wait", "--timeout", patience.String())
	for _, flags := range [][]string{{"--tls-ca", cert}, {"--tls-ca", cert, "--token-file", wrong}} {
		for _, verb := range [][]string{{"status"}, {"run", hello}, {"stop", "--all"}, {"audit"}} {
			if a := c.try(append(flags, verb...)...); a.code != 2 || !strings.Contains(a.stderr, "refuses this caller") {
				t.Errorf("%v with %v: exit code %d: %s", verb, flags, a.code, a.stderr)
			}
		}
	}
	if a := c.try("status"); a.code != 3 {
		t.Errorf("status without TLS: exit code %d: %s", a.code, a.stderr)
	}

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(contents(cert)))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	for header, want := range map[string]int{"": 401, "Bearer open-barley": 401, "Bearer open-sesame": 200} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+c.address+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", header)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want || strings.Contains(string(body), "ohm_") != (want == 200) {
			t.Errorf("/metrics with %q: %s, %v, %d bytes", header, resp.Status, err, len(body))
		}
	}
}
