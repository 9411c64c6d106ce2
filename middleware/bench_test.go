package middleware_test

import (
	"net/http"
	"testing"
)

// BenchmarkServe is what a Guard costs beside its Locker.
func BenchmarkServe(b *testing.B) {
	g := newGuard(b, &stub{})
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, p := range protocols {
		b.Run(p.name, func(b *testing.B) {
			srv := serve(b, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b.ReportAllocs()
				for b.Loop() {
					g.Serve(w, r, next)
				}
			}))
			resp, err := srv.Client().Do(request(b, http.MethodPost, srv.URL))
			if err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
		})
	}
}
