package main

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
)

// An apiError is an error as OpenAI's API words it. Its message is safe to show.
type apiError struct {
	status  int
	message string
	kind    string // "": what goes with the status
	param   string // the field of the request that is wrong; "": none
	code    string // "": none
}

func (e *apiError) Error() string { return e.message }

// MarshalJSON returns the body of the response, or the data of an event.
func (e *apiError) MarshalJSON() ([]byte, error) {
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	kind := "invalid_request_error"
	if e.status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	return json.Marshal(struct {
		Error body `json:"error"`
	}{body{e.message, cmp.Or(e.kind, kind), orNull(e.param), orNull(e.code)}})
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func writeError(w http.ResponseWriter, e *apiError) {
	writeJSON(w, e.status, e)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // types of our own only: cannot happen
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have gone
}
