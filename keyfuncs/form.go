package keyfuncs

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// FormValue returns a Func with the value of a form field in the body, as
// r.PostForm has it: of a POST, PUT or PATCH, urlencoded or multipart, without
// the query and without files. A body of another type is ErrMissing. A field
// given several times with different values, and a form that cannot be parsed,
// are ErrMalformed; a body beyond [MaxBody] is a [*http.MaxBytesError].
//
// The handler finds body and r.Form as if the Func had not run. Where somebody
// has parsed the form before, FormValue takes what was found.
func FormValue(name string) Func {
	mustName("FormValue", name)
	const source = "form value"
	return func(r *http.Request) (string, error) {
		kind, err := formKind(r)
		if err != nil {
			return "", malformed(source, name, "the Content-Type cannot be parsed")
		}
		if kind == "" {
			return "", missing(source, name)
		}
		// ParseForm sets PostForm, but reads the body of an urlencoded form only.
		if r.PostForm != nil && (kind == urlencoded || r.MultipartForm != nil) {
			return one(source, name, r.PostForm[name])
		}
		b, err := peek(r)
		if err != nil {
			return "", err
		}
		if b == nil {
			return "", missing(source, name)
		}
		form, err := parseForm(r, kind, b.text)
		if err != nil {
			return "", malformed(source, name, "the form cannot be parsed")
		}
		return one(source, name, form[name])
	}
}

const (
	urlencoded = "application/x-www-form-urlencoded"
	multipart  = "multipart/form-data"
)

// formKind returns the type of the form that r carries, "" if it carries none.
func formKind(r *http.Request) (string, error) {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
	default:
		return "", nil
	}
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		return "", nil
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if kind != urlencoded && kind != multipart {
		kind = ""
	}
	return kind, err
}

// parseForm has net/http parse a request of its own, so that a key is what the
// handler will find, and r stays as it was.
func parseForm(r *http.Request, kind, text string) (url.Values, error) {
	form := &http.Request{ // without a URL, so without a query
		Method: r.Method,
		Header: r.Header,
		Body:   io.NopCloser(strings.NewReader(text)),
	}
	if kind == urlencoded {
		err := form.ParseForm()
		return form.PostForm, err
	}
	// Far more memory than MaxBody, counting what net/http adds for each part:
	// nothing goes to a temporary file.
	err := form.ParseMultipartForm(64 * MaxBody)
	if form.MultipartForm != nil {
		_ = form.MultipartForm.RemoveAll()
	}
	return form.PostForm, err
}
