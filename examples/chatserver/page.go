package main

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"time"

	"github.com/gin-gonic/gin"
)

//go:embed page
var pageFiles embed.FS

// securityPolicy has the page load nothing but its own files and talk to
// nobody but this server.
const securityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// statusPath is what the page asks every other second.
const statusPath = "/page/status.json"

// A page is what GET / shows, with its style and script, and what that asks for.
type page struct {
	files map[string][]byte // by path
	redis *outage
}

func newPage(wait time.Duration, redis *outage) (*page, error) {
	p := &page{files: make(map[string][]byte), redis: redis}
	index, err := template.ParseFS(pageFiles, "page/index.html")
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	var html bytes.Buffer
	if err := index.Execute(&html, map[string]time.Duration{"Wait": wait}); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	p.files["/"] = html.Bytes()
	for _, name := range []string{"style.css", "app.js", "api.js", "race.js", "status.js", "words.js"} {
		if p.files["/page/"+name], err = pageFiles.ReadFile("page/" + name); err != nil {
			return nil, fmt.Errorf("page: %w", err)
		}
	}
	return p, nil
}

func (p *page) register(router gin.IRoutes) {
	types := map[string]string{"": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
	for name, content := range p.files {
		kind := types[path.Ext(name)]
		router.GET(name, func(c *gin.Context) {
			secure(c.Writer.Header())
			c.Header("Cache-Control", "no-cache")
			c.Data(http.StatusOK, kind, content)
		})
	}
	router.GET(statusPath, func(c *gin.Context) {
		secure(c.Writer.Header())
		c.Header("Cache-Control", "no-store")
		writeJSON(c.Writer, http.StatusOK, p.redis.status())
	})
}

func secure(h http.Header) {
	h.Set("Content-Security-Policy", securityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}
