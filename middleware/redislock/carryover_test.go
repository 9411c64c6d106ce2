package redislock_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/internal/redistest"
	"github.com/reqlock/reqlock/middleware/lock"
	"github.com/reqlock/reqlock/middleware/redislock"
)

// counter is a hook that counts commands, those of a pipeline one by one.
type counter struct{ commands, trips atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.commands.Add(1)
		c.trips.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.commands.Add(int64(len(cmds)))
		c.trips.Add(1)
		return next(ctx, cmds)
	}
}

// Hooks of the given client see what is asked, as they see what the application
// asks: each command once, in whatever trip it is sent.
func TestHooksOfAClient(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 2})
	defer client.Close()
	var before, after counter
	client.AddHook(&before)
	l := open(t, client)
	client.AddHook(&after)
	require.NoError(t, acquire(t, l, "key", lock.Options{}).Release(t.Context()))
	require.EqualValues(t, 2, before.commands.Load())
	crowd(t, l, 200)
	require.EqualValues(t, 2+2*200, before.commands.Load())
	require.Less(t, before.trips.Load(), before.commands.Load())
	require.Zero(t, after.commands.Load(), "it came too late")
	require.NoError(t, client.Ping(t.Context()).Err(), "the client is still the application's")
	require.NotZero(t, after.commands.Load())
}

// A hook that panics is a failure of Redis, to whoever asks, gives back or renews; no
// turn is left taken. One that fails at once is not called without end.
func TestHooksThatFail(t *testing.T) {
	for name, fail := range map[string]func() error{
		"panic": func() error { panic("hook") },
		"error": func() error { return errors.New("hook") },
	} {
		t.Run(name, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr(), PoolSize: 2})
			defer client.Close()
			hook := &failing{fail: fail}
			client.AddHook(hook)
			l := open(t, client)
			held := acquire(t, l, "held", lock.Options{TTL: time.Second})
			back := acquire(t, l, "back", lock.Options{TTL: longTTL})
			hook.armed.Store(true)
			for _, wait := range []time.Duration{0, time.Second} {
				_, err := l.Acquire(t.Context(), "key", lock.Options{Wait: wait})
				require.ErrorIs(t, err, lock.ErrUnavailable)
				require.ErrorContains(t, err, "hook")
			}
			require.Less(t, hook.calls.Load(), int64(400))
			var all sync.WaitGroup
			for i := range 300 {
				all.Go(func() {
					_, err := l.Acquire(t.Context(), fmt.Sprint("key", i), lock.Options{Wait: time.Second})
					assert.ErrorIs(t, err, lock.ErrUnavailable)
				})
			}
			all.Wait()
			require.ErrorIs(t, back.Release(t.Context()), lock.ErrUnavailable)
			require.Equal(t, lock.ErrExpired, awaitEnd(t, held), "nobody has said that it was gone")
			hook.armed.Store(false)
			for _, key := range []string{"key", "back", "held"} {
				lease, err := l.Acquire(t.Context(), key, lock.Options{Wait: patience})
				require.NoError(t, err, key)
				require.NoError(t, lease.Release(t.Context()), key)
			}
		})
	}
}

// failing is a hook that fails while it is armed.
type failing struct {
	fail  func() error
	armed atomic.Bool
	calls atomic.Int64
}

func (f *failing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *failing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f.armed.Load() {
			f.calls.Add(1)
			return f.fail()
		}
		return next(ctx, cmd)
	}
}

func (f *failing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if f.armed.Load() {
			f.calls.Add(1)
			return f.fail()
		}
		return next(ctx, cmds)
	}
}

// certificate returns one for 127.0.0.1 that signs itself, as files and as what trusts
// it.
func certificate(t *testing.T) (cert, key string, trust *tls.Config) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(t, os.WriteFile(cert, certPEM, 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(certPEM))
	return cert, key, &tls.Config{RootCAs: roots}
}

// freePort returns the number of a port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// TLS, a password, and what is to be called when a connection or a client is made,
// come from the given client, whatever it leads to.
func TestOptionsOfAClient(t *testing.T) {
	cert, key, trust := certificate(t)
	port := freePort(t)
	addr := fmt.Sprint("127.0.0.1:", port)
	secured := []string{
		fmt.Sprint("tls-port ", port), "tls-cert-file " + cert, "tls-key-file " + key, "tls-ca-cert-file " + cert,
		"tls-auth-clients no", "tls-cluster yes", "user app on >secret ~* &* +@all",
	}
	for _, tc := range []struct {
		name   string
		config []string
		client func(*redis.Options) redis.UniversalClient
	}{
		{"a single server", nil, func(o *redis.Options) redis.UniversalClient {
			o.Addr = addr
			return redis.NewClient(o)
		}},
		{"a cluster", []string{"cluster-enabled yes", "cluster-announce-ip 127.0.0.1"}, func(o *redis.Options) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: []string{addr}, TLSConfig: o.TLSConfig, Username: o.Username, Password: o.Password, OnConnect: o.OnConnect,
			})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := redistest.Start(t, append(tc.config, secured...)...)
			if tc.config != nil {
				require.NoError(t, server.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
				require.Eventually(t, func() bool {
					return strings.Contains(server.Client().ClusterInfo(t.Context()).Val(), "cluster_state:ok")
				}, patience, time.Millisecond)
			}
			var connected atomic.Int64
			client := tc.client(&redis.Options{
				TLSConfig: trust, Username: "app", Password: "secret",
				OnConnect: func(ctx context.Context, conn *redis.Conn) error {
					connected.Add(1)
					return conn.Ping(ctx).Err()
				},
			})
			defer client.Close()
			l, peer := open(t, client), open(t, client)
			lease := acquire(t, l, "key", lock.Options{})
			waiter := acquireLater(t.Context(), peer, lock.Options{Wait: patience})
			awaitKeyQueued(t, server, "key", 1)
			require.NoError(t, lease.Release(t.Context()))
			require.NoError(t, requireGranted(t, waiter, patience).Release(t.Context()))
			require.Positive(t, connected.Load())
			list, err := server.Client().ClientList(t.Context()).Result()
			require.NoError(t, err)
			require.Contains(t, list, "user=app")
		})
	}
}

// How the clients of a Cluster's nodes are made is the application's choice, hooks
// included.
func TestClusterNewClient(t *testing.T) {
	cluster := redistest.StartCluster(t)
	var seen counter
	l := open(t, cluster.Client(func(o *redis.ClusterOptions) {
		o.NewClient = func(o *redis.Options) *redis.Client {
			client := redis.NewClient(o)
			client.AddHook(&seen)
			return client
		}
	}), redislock.WithPrefix("app:"))
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	before := seen.commands.Load()
	require.NoError(t, acquire(t, l, "warm", lock.Options{}).Release(t.Context()))
	require.GreaterOrEqual(t, seen.commands.Load()-before, int64(2))
}
