package ginlock_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/ginlock"
	"github.com/reqlock/reqlock/httplock"
	"github.com/reqlock/reqlock/middleware/memlock"
)

// net/http removes the temporary files of its own request's form when it is
// done; guarded handlers parse the form of a copy.
func TestMultipartFilesAreRemoved(t *testing.T) {
	files := make(chan string, 1)
	upload := func(_ http.ResponseWriter, r *http.Request) {
		if !assert.NoError(t, r.ParseMultipartForm(1)) {
			return
		}
		f, err := r.MultipartForm.File["f"][0].Open()
		if assert.NoError(t, err) {
			defer f.Close()
			files <- f.(*os.File).Name()
		}
	}
	locks := memlock.New()
	router := gin.New()
	router.POST("/gin", ginlock.New(locks, user), func(c *gin.Context) { upload(c.Writer, c.Request) })
	mux := http.NewServeMux()
	mux.Handle("/http", httplock.New(locks, user)(http.HandlerFunc(upload)))
	mux.Handle("/", router)
	router.POST("/panics", gin.Recovery(), ginlock.New(locks, user), func(c *gin.Context) {
		upload(c.Writer, c.Request)
		panic("later")
	})
	srv := serve(t, false, mux)

	for _, path := range []string{"/http", "/gin", "/panics"} {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		part, err := w.CreateFormFile("f", "f.bin")
		require.NoError(t, err)
		_, _ = part.Write(make([]byte, 11<<20)) // beyond what a form keeps in memory in any case
		require.NoError(t, w.Close())
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, &form)
		require.NoError(t, err)
		r.Header.Set("X-User-ID", "u1")
		r.Header.Set("Content-Type", w.FormDataContentType())
		resp, err := srv.Client().Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		name := <-files
		require.Eventually(t, func() bool {
			_, err := os.Stat(name)
			return os.IsNotExist(err)
		}, 5*time.Second, time.Millisecond, path)
	}
}
