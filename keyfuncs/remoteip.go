package keyfuncs

import (
	"fmt"
	"iter"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// RemoteIP returns a Func with the address of the client: an IPv4 address
// ("203.0.113.7"), or the /64 network of an IPv6 address ("2001:db8:1:2::/64"),
// since one client owns at least a whole /64 and can change addresses at will.
//
// An address is a poor key for users: everybody behind one NAT, office or
// mobile carrier shares it and would wait for each other, and one user has
// several. It is for what has no user, such as an anonymous sign-up.
//
// Whom to believe:
//
//   - Without trusted prefixes only r.RemoteAddr counts, whoever opened the
//     connection. X-Forwarded-For is not looked at. Behind a proxy that is the
//     proxy, for all clients.
//   - With them, X-Forwarded-For is believed only where r.RemoteAddr is within
//     one of them. It is read from the right, where the nearest proxy has
//     written; the first address that is not trusted is the client. What is
//     left of it was sent by the client and is not looked at. Where all are
//     trusted, the leftmost is the client.
//   - Trust the addresses of your own proxies only, and each must append the
//     address it was reached from. A prefix of length 0 would let every client
//     choose its address: RemoteIP panics, as it does for an invalid prefix.
//
// Several X-Forwarded-For lines count as one, joined in order. Entries may
// carry a port; IPv4 addresses in IPv6 form are taken as IPv4, zones are
// dropped. An entry that is no address, reached before an untrusted one, is
// ErrMalformed. A connection without an address (a Unix socket) is ErrMissing.
// Other headers (Forwarded, X-Real-IP) are not read.
func RemoteIP(trusted ...netip.Prefix) Func {
	proxies := make(prefixes, len(trusted))
	for i, p := range trusted {
		proxies[i] = mustTrust(p)
	}
	return func(r *http.Request) (string, error) {
		client, ok := parseIP(r.RemoteAddr)
		if !ok {
			return "", missing("remote address", "")
		}
		if proxies.contain(client) {
			for entry := range fromRight(r.Header["X-Forwarded-For"]) {
				if client, ok = parseIP(entry); !ok {
					return "", malformed("header", "X-Forwarded-For", "holds what is not an address")
				}
				if !proxies.contain(client) {
					break
				}
			}
		}
		if client.Is4() {
			return client.String(), nil
		}
		return netip.PrefixFrom(client, 64).Masked().String(), nil
	}
}

// parseIP reads an address with or without a port, in one form for each client:
// an attacker could otherwise write a trusted address so that it looks like
// another one, or one address in many ways.
func parseIP(s string) (netip.Addr, bool) {
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		bare = s[1 : len(s)-1]
	}
	addr, err := netip.ParseAddr(bare)
	if err != nil {
		withPort, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = withPort.Addr()
	}
	return addr.Unmap().WithZone(""), true
}

// fromRight yields the entries of comma-separated lines, the last one first,
// without empty ones and surrounding spaces.
func fromRight(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range slices.Backward(lines) {
			for line != "" {
				i := strings.LastIndexByte(line, ',')
				entry := strings.Trim(line[i+1:], " \t")
				line = line[:max(i, 0)]
				if entry != "" && !yield(entry) {
					return
				}
			}
		}
	}
}

type prefixes []netip.Prefix

func (ps prefixes) contain(addr netip.Addr) bool {
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// mustTrust returns p in the form that addresses are compared in.
func mustTrust(p netip.Prefix) netip.Prefix {
	if !p.IsValid() {
		panic("keyfuncs: RemoteIP: a trusted prefix is invalid")
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p.Bits() == 0 {
		panic(fmt.Sprintf("keyfuncs: RemoteIP: trusting %v would let every client choose its address", p))
	}
	return p
}
