package transcript

import (
	"net/http"
	"slices"
	"strings"
)

// Changes are what a handler has made of the header that it found: what others have put
// there, such as CORS headers and the id of the request, is each response's own.
type Changes struct {
	set     http.Header // lines in the place of those that were there
	added   http.Header // lines behind those that were there
	deleted []string
}

// changes returns those from one header to another, none of which is kept.
func changes(before, after http.Header) (c Changes) {
	for name, lines := range after {
		was, there := before[name]
		switch {
		case there && slices.Equal(was, lines):
		case len(was) > 0 && len(lines) > len(was) && slices.Equal(was, lines[:len(was)]):
			c.added = with(c.added, name, lines[len(was):])
		default:
			c.set = with(c.set, name, lines)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			c.deleted = append(c.deleted, name)
		}
	}
	return c
}

func with(h http.Header, name string, lines []string) http.Header {
	if h == nil {
		h = make(http.Header)
	}
	h[name] = slices.Clone(lines)
	return h
}

// Values returns the lines that the handler has set or added: see [Values].
func (c Changes) Values(name string) []string {
	return append(Values(c.set, name), Values(c.added, name)...)
}

// Values returns the lines of a header. name is in canonical form; a handler's need not
// have been.
func Values(h http.Header, name string) (lines []string) {
	for n := range h {
		if http.CanonicalHeaderKey(n) == name {
			lines = append(lines, h[n]...)
		}
	}
	return lines
}

// ofConnection are the headers that say something of one connection only (RFC 9110,
// section 7.6.1).
var ofConnection = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Te": true, "Transfer-Encoding": true, "Upgrade": true,
}

// Apply makes the same changes to the header of a response on another connection.
func (c Changes) Apply(h http.Header) {
	for name, lines := range c.set {
		if !ofConnection[name] {
			h[name] = slices.Clone(lines)
		}
	}
	for name, lines := range c.added {
		if !ofConnection[name] {
			h[name] = append(slices.Clip(h[name]), lines...)
		}
	}
	for _, name := range c.deleted {
		delete(h, name)
	}
}

// trailers returns those of a header whose response is complete: see
// [http.ResponseWriter] for the two ways there are.
func trailers(declared []string, h http.Header) (t http.Header) {
	for name := range h {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			t = with(t, name, h[name])
		}
	}
	for _, line := range declared {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if lines, ok := h[name]; ok {
				t = with(t, name, lines)
			}
		}
	}
	return t
}
