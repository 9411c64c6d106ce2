package join_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two users that only their certificates tell apart do not share.
func TestClientCertificatesTellUsersApart(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		name := "HTTP1"
		if http2 {
			name = "HTTP2"
		}
		t.Run(name, func(t *testing.T) {
			s := serve(t, setup{http2: true, start: func(server *httptest.Server) {
				server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
			}})
			ann, bob := s.certified(http2), s.certified(http2)
			first, c := s.leadBy(ann)
			s.apart(first, c, s.sendBy(bob, s.get("")))
			first, c = s.leadBy(ann)
			s.together(first, c, s.sendBy(ann, s.get("")))
		})
	}
}

func (s *site) leadBy(client *http.Client) (*visitor, *call) {
	s.t.Helper()
	v := s.sendBy(client, s.get(""))
	return v, s.next()
}

// certified returns a client with a certificate of its own.
func (s *site) certified(http2 bool) *http.Client {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(s.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(s.t, err)
	t := s.Client().Transport.(*http.Transport).Clone()
	t.TLSClientConfig.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(!http2)
	t.Protocols.SetHTTP2(http2)
	t.TLSClientConfig.NextProtos = nil
	s.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}
