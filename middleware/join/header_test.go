package join_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

// fromOutside sets headers as middlewares around the guard do.
func fromOutside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		h.Set("X-Request-Id", r.UserAgent())
		h.Set("X-Replaced", "outside "+r.UserAgent())
		h.Set("X-Deleted", "outside")
		h.Add("Vary", "Origin")
		h.Add("Set-Cookie", "visit="+r.UserAgent())
		next.ServeHTTP(w, r)
	})
}

func TestH1HeadersFromOutsideAreEachRequestsOwn(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		p.outside = fromOutside
		s := serve(t, p)
		request := func(name string) *http.Request {
			r := s.get(name)
			r.Header.Set("Origin", "https://a.example")
			return r
		}
		leader, c := s.lead(request("one"))
		followers := map[string]*visitor{"two": s.send(request("two")), "three": s.send(request("three"))}
		s.watched(3)
		c.do(func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Add("Vary", "Accept")
			h.Set("X-Replaced", "by the handler")
			h.Set("X-New", "new")
			h.Del("X-Deleted")
			w.WriteHeader(http.StatusAccepted)
			h.Set("X-New", "too late")
		})
		c.end()
		followers["one"] = leader
		for name, v := range followers {
			resp := v.head()
			assert.Equal(t, http.StatusAccepted, resp.StatusCode)
			assert.Equal(t, []string{"https://a.example"}, resp.Header["Access-Control-Allow-Origin"])
			assert.Equal(t, []string{name}, resp.Header["X-Request-Id"])
			assert.Equal(t, []string{"visit=" + name}, resp.Header["Set-Cookie"])
			assert.Equal(t, []string{"Origin", "Accept"}, resp.Header["Vary"])
			assert.Equal(t, []string{"by the handler"}, resp.Header["X-Replaced"])
			assert.Equal(t, []string{"new"}, resp.Header["X-New"])
			assert.NotContains(t, resp.Header, "X-Deleted")
		}
	})
}

func TestH1OtherOriginsHaveTheirOwn(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p setup) {
		p.inside = fromOutside // as where CORS is the handler's own business
		s := serve(t, p)
		request := func(origin string) *http.Request {
			r := s.get("")
			r.Header.Set("Origin", origin)
			return r
		}
		first, c := s.lead(request("https://a.example"))
		second := s.send(request("https://b.example"))
		s.apart(first, c, second)
		assert.Equal(t, "https://a.example", first.head().Header.Get("Access-Control-Allow-Origin"))
		assert.Equal(t, "https://b.example", second.head().Header.Get("Access-Control-Allow-Origin"))
	})
}
