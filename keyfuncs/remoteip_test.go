package keyfuncs_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/reqlock/reqlock/keyfuncs"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func from(peer string, forwarded ...string) *http.Request {
	r := &http.Request{RemoteAddr: peer, Header: http.Header{}}
	for _, line := range forwarded {
		r.Header.Add("X-Forwarded-For", line)
	}
	return r
}

func TestRemoteIP_Peer(t *testing.T) {
	none := missing("keyfuncs: remote address: missing")
	for peer, want := range map[string]want{
		"203.0.113.7:4711":              is("203.0.113.7"),
		"203.0.113.7":                   is("203.0.113.7"),
		"[::ffff:203.0.113.7]:4711":     is("203.0.113.7"),
		"[2001:db8:1:2:3:4:5:6]:4711":   is("2001:db8:1:2::/64"),
		"2001:DB8:1:2::ffff":            is("2001:db8:1:2::/64"),
		"[2001:db8:1:2::1]":             is("2001:db8:1:2::/64"),
		"[fe80::1%eth0]:4711":           is("fe80::/64"),
		"[::ffff:203.0.113.7%eth0]:471": is("203.0.113.7"),
		"":                              none,
		"@":                             none,
		"/run/app.sock":                 none,
		"pipe":                          none,
		"example.com:80":                none,
		"203.0.113.7:port":              none,
		"[203.0.113.7":                  none,
		"203.0.113.007:1":               none,
	} {
		t.Run(peer, func(t *testing.T) {
			want.check(t, keyfuncs.RemoteIP(), from(peer))
			want.check(t, keyfuncs.RemoteIP(prefix("10.0.0.0/8")), from(peer))
		})
	}
}

func TestH16_OnlyTrustedProxiesCountedFromTheRight(t *testing.T) {
	broken := malformed(`keyfuncs: header "X-Forwarded-For": malformed: holds what is not an address`)
	proxies := keyfuncs.RemoteIP(prefix("10.0.0.0/8"), prefix("2001:db8:aaaa::/48"), prefix("::ffff:192.0.2.0/120"))
	for name, c := range map[string]struct {
		r    *http.Request
		want want
	}{
		"nobody is trusted by default":      {from("10.0.0.1:1", "6.6.6.6"), is("10.0.0.1")},
		"direct client":                     {from("203.0.113.7:1"), is("203.0.113.7")},
		"direct client, spoofed":            {from("203.0.113.7:1", "6.6.6.6"), is("203.0.113.7")},
		"direct client, spoofed as a proxy": {from("203.0.113.7:1", "10.0.0.1"), is("203.0.113.7")},
		"through a proxy":                   {from("10.0.0.1:1", "203.0.113.7"), is("203.0.113.7")},
		"through a proxy, spoofed":          {from("10.0.0.1:1", "6.6.6.6, 203.0.113.7"), is("203.0.113.7")},
		"spoofed with a proxy's address":    {from("10.0.0.1:1", "6.6.6.6, 10.0.0.2, 203.0.113.7"), is("203.0.113.7")},
		"spoofed with rubbish":              {from("10.0.0.1:1", "<script>, , 203.0.113.7"), is("203.0.113.7")},
		"spoofed in a line of its own":      {from("10.0.0.1:1", "6.6.6.6", "203.0.113.7"), is("203.0.113.7")},
		"through two proxies":               {from("10.0.0.1:1", "6.6.6.6, 203.0.113.7, 10.0.0.2"), is("203.0.113.7")},
		"two proxies, two lines":            {from("10.0.0.1:1", "203.0.113.7", "10.0.0.2"), is("203.0.113.7")},
		"proxies of both families":          {from("[2001:db8:aaaa::1]:1", "203.0.113.7, 10.0.0.2"), is("203.0.113.7")},
		"a proxy in IPv6 form":              {from("[::ffff:10.0.0.1]:1", "203.0.113.7, ::ffff:10.0.0.2"), is("203.0.113.7")},
		"a prefix in IPv6 form":             {from("192.0.2.4:1", "203.0.113.7"), is("203.0.113.7")},
		"a proxy with a zone":               {from("10.0.0.1:1", "203.0.113.7, 2001:db8:aaaa::2%eth0"), is("203.0.113.7")},
		"an IPv6 client":                    {from("10.0.0.1:1", "2001:db8:1:2::7"), is("2001:db8:1:2::/64")},
		"with ports":                        {from("10.0.0.1:1", "[2001:db8:1:2::7]:99, 10.0.0.2:80"), is("2001:db8:1:2::/64")},
		"no spaces, tabs, empty entries":    {from("10.0.0.1:1", ",203.0.113.7,,\t10.0.0.2 ,", ""), is("203.0.113.7")},
		"all are trusted":                   {from("10.0.0.1:1", "10.0.0.3, 10.0.0.2"), is("10.0.0.3")},
		"a proxy asks for itself":           {from("10.0.0.1:1"), is("10.0.0.1")},
		"rubbish from a proxy":              {from("10.0.0.1:1", "203.0.113.7, unknown"), broken},
		"rubbish from the second proxy":     {from("10.0.0.1:1", "203.0.113.7, _x, 10.0.0.2"), broken},
		"an address with more after it":     {from("10.0.0.1:1", "203.0.113.7 6.6.6.6"), broken},
		"no address at a Unix socket":       {from("@", "203.0.113.7"), missing("keyfuncs: remote address: missing")},
	} {
		f := proxies
		if name == "nobody is trusted by default" {
			f = keyfuncs.RemoteIP()
		}
		t.Run(name, func(t *testing.T) { c.want.check(t, f, c.r) })
	}
}

// Whatever a client sends, the proxy appends the client's own address, and
// that one is the key.
func TestH16_NothingAClientSendsChangesItsKey(t *testing.T) {
	f := keyfuncs.RemoteIP(prefix("10.0.0.0/8"))
	entry := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"10.0.0.2", "6.6.6.6", "::1", "", ",", "unknown", "203.0.113.8"}))
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(entry, 0, 4).Draw(t, "sent")
		if len(lines) > 0 && rapid.Bool().Draw(t, "same line") {
			lines[len(lines)-1] += ", 203.0.113.7"
		} else {
			lines = append(lines, "203.0.113.7")
		}
		key, err := f(from("10.0.0.1:1", lines...))
		require.NoError(t, err)
		assert.Equal(t, "203.0.113.7", key)
	})
}

func FuzzRemoteIP(f *testing.F) {
	f.Add("10.0.0.1:1", "6.6.6.6, 203.0.113.7")
	f.Add("[2001:db8::1%eth0]:1", "[::1]:80")
	f.Add("@", ",,,")
	f.Add("10.0.0.1", "[[::1]], ]10.0.0.1[")
	key := keyfuncs.RemoteIP(prefix("10.0.0.0/8"), prefix("2001:db8::/32"))
	f.Fuzz(func(t *testing.T, peer, forwarded string) {
		got, err := key(from(peer, forwarded))
		if err != nil {
			assert.Empty(t, got)
			return
		}
		if network, err := netip.ParsePrefix(got); err == nil {
			assert.Equal(t, 64, network.Bits())
			assert.Equal(t, network.Masked(), network)
			return
		}
		addr, err := netip.ParseAddr(got)
		require.NoError(t, err)
		assert.True(t, addr.Is4())
	})
}
