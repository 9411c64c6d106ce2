package join_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"

	"golang.org/x/sync/singleflight"

	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware"
)

// buffering has equal requests share a response in the way that middleware against
// stampedes has: the handler writes into a buffer, and all get what is in it when the
// handler has returned. What is equal is the same as in a guard.
func buffering(key keyfuncs.Func) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		var flights singleflight.Group
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			who, err := key(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			print, err := middleware.Fingerprint(r, body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			role := "joined"
			v, _, _ := flights.Do(who+" "+r.Method+" "+print, func() (any, error) {
				role = "leader"
				r.Body = io.NopCloser(bytes.NewReader(body))
				b := &buffered{header: make(http.Header), status: http.StatusOK}
				next.ServeHTTP(b, r)
				return b, nil
			})
			b := v.(*buffered)
			maps.Copy(w.Header(), b.header)
			w.Header().Set(middleware.RoleHeader, role)
			w.WriteHeader(b.status)
			_, _ = w.Write(b.body.Bytes())
		})
	}
}

// buffered is a response in memory.
type buffered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *buffered) Header() http.Header         { return b.header }
func (b *buffered) WriteHeader(status int)      { b.status = status }
func (b *buffered) Write(p []byte) (int, error) { return b.body.Write(p) }
func (b *buffered) Flush()                      {}
