package ginlock_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/keyfuncs"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// BenchmarkHandler is what the guard adds to a route, memlock included.
func BenchmarkHandler(b *testing.B) {
	set := func(c *gin.Context) { c.Set("user", "u1") }
	key := keyfuncs.Join(ginlock.Value("user"), keyfuncs.PathValue("session"))
	router := gin.New()
	router.POST("/plain/:session", set, func(*gin.Context) {})
	router.POST("/guarded/:session", set, ginlock.New(memlock.New(), key), func(*gin.Context) {})
	for _, path := range []string{"/plain/s1", "/guarded/s1"} {
		b.Run(path[1:len(path)-3], func(b *testing.B) {
			w, r := httptest.NewRecorder(), request(b, http.MethodPost, path, "")
			b.ReportAllocs()
			for b.Loop() {
				router.ServeHTTP(w, r)
			}
		})
	}
}
