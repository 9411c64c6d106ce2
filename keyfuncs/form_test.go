package keyfuncs_test

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reqlock/reqlock/keyfuncs"
)

const urlencoded = "application/x-www-form-urlencoded"

func isClientError(err error) bool {
	return errors.Is(err, keyfuncs.ErrMissing) || errors.Is(err, keyfuncs.ErrMalformed)
}

func form(method, contentType, body string) *http.Request {
	r := httptest.NewRequest(method, "/?order=fromquery", strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return r
}

func TestFormValue(t *testing.T) {
	none := missing(`keyfuncs: form value "order": missing`)
	twice := malformed(`keyfuncs: form value "order": malformed: given more than once`)
	broken := malformed(`keyfuncs: form value "order": malformed: the form cannot be parsed`)
	const mp = "multipart/form-data; boundary=B"
	field := func(name, value string) string {
		return "--B\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
	}
	file := "--B\r\nContent-Disposition: form-data; name=\"order\"; filename=\"f\"\r\n\r\nfile\r\n"
	for name, c := range map[string]struct {
		method, contentType, body string
		want                      want
	}{
		"urlencoded":               {"POST", urlencoded, "a=1&order=o+1%2F", is("o 1/")},
		"with a charset":           {"PUT", urlencoded + "; charset=utf-8", "order=o1", is("o1")},
		"patch":                    {"PATCH", urlencoded, "order=o1", is("o1")},
		"twice the same":           {"POST", urlencoded, "order=o1&order=o1", is("o1")},
		"two values":               {"POST", urlencoded, "order=o1&order=o2", twice},
		"empty":                    {"POST", urlencoded, "order=", none},
		"absent":                   {"POST", urlencoded, "a=1", none},
		"no body":                  {"POST", urlencoded, "", none},
		"undecodable":              {"POST", urlencoded, "order=o1&a=%zz", broken},
		"get":                      {"GET", urlencoded, "order=o1", none},
		"delete":                   {"DELETE", urlencoded, "order=o1", none},
		"no type":                  {"POST", "", "order=o1", none},
		"another type":             {"POST", "application/json", `{"order":"o1"}`, none},
		"broken type":              {"POST", "x/y; =", "order=o1", malformed(`keyfuncs: form value "order": malformed: the Content-Type cannot be parsed`)},
		"multipart":                {"POST", mp, field("a", "1") + field("order", "o1") + "--B--\r\n", is("o1")},
		"multipart, two values":    {"POST", mp, field("order", "o1") + field("order", "o2") + "--B--\r\n", twice},
		"multipart, a file":        {"POST", mp, file + "--B--\r\n", none},
		"multipart, absent":        {"POST", mp, field("a", "1") + "--B--\r\n", none},
		"multipart, cut short":     {"POST", mp, field("order", "o1"), broken},
		"multipart, not one":       {"POST", mp, "order=o1", broken},
		"multipart, no boundary":   {"POST", "multipart/form-data", field("order", "o1") + "--B--\r\n", broken},
		"multipart, mixed is none": {"POST", "multipart/mixed; boundary=B", field("order", "o1") + "--B--\r\n", none},
	} {
		t.Run(name, func(t *testing.T) {
			r := form(c.method, c.contentType, c.body)
			c.want.check(t, keyfuncs.FormValue("order"), r)

			assert.Nil(t, r.Form)
			assert.Nil(t, r.PostForm)
			assert.Nil(t, r.MultipartForm)
			body, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			assert.Equal(t, c.body, string(body))
		})
	}
}

func TestFormValue_TheHandlerParsesAsEver(t *testing.T) {
	r := form("POST", urlencoded, "order=o1")
	is("o1").check(t, keyfuncs.FormValue("order"), r)
	require.NoError(t, r.ParseForm())
	assert.Equal(t, []string{"o1", "fromquery"}, r.Form["order"])
	assert.Equal(t, []string{"o1"}, r.PostForm["order"])
}

func TestFormValue_AfterSomebodyParsedTheForm(t *testing.T) {
	r := form("POST", urlencoded, "order=o1")
	require.NoError(t, r.ParseForm())
	is("o1").check(t, keyfuncs.FormValue("order"), r)

	r = form("POST", "multipart/form-data; boundary=B", "--B\r\nContent-Disposition: form-data; name=\"order\"\r\n\r\no1\r\n--B--\r\n")
	require.NoError(t, r.ParseForm()) // leaves the body alone
	is("o1").check(t, keyfuncs.FormValue("order"), r)
	require.NoError(t, r.ParseMultipartForm(1<<20))
	is("o1").check(t, keyfuncs.FormValue("order"), r)
}

func TestFormValue_NeedsNoTemporaryFile(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "absent")) // a file would fail
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for range 500 { // many small files cost more memory than bytes
		part, err := w.CreateFormFile("file", "f")
		require.NoError(t, err)
		_, _ = part.Write(make([]byte, 1500))
	}
	require.NoError(t, w.WriteField("order", "o1"))
	require.NoError(t, w.Close())
	require.Less(t, body.Len(), keyfuncs.MaxBody)

	is("o1").check(t, keyfuncs.FormValue("order"), form("POST", w.FormDataContentType(), body.String()))
}

func FuzzFormValue(f *testing.F) {
	f.Add(urlencoded, "order=o1&order=o1")
	f.Add("multipart/form-data; boundary=B", "--B\r\nContent-Disposition: form-data; name=\"order\"\r\n\r\no1\r\n--B--\r\n")
	f.Add("multipart/form-data; boundary=\"", "--B")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		r := form("POST", contentType, body)
		key, err := keyfuncs.FormValue("order")(r)
		whole, readErr := io.ReadAll(r.Body)
		require.NoError(t, readErr)
		require.Equal(t, body, string(whole))
		if err != nil {
			assert.True(t, isClientError(err), err)
			return
		}
		assert.Equal(t, key, form("POST", contentType, body).PostFormValue("order"))
	})
}
