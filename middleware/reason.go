package middleware

import "net/http"

// A Reason says why a request was denied. Its text is part of the default
// response and of events, and does not change.
type Reason string

// The reasons there are, with the status that each is answered with.
const (
	NoKey        Reason = "no_key"         // 400: the request lacks what its key is made of, or has it malformed
	Interrupted  Reason = "interrupted"    // 409: somebody called Interrupt for the key
	BodyTooLarge Reason = "body_too_large" // 413: the key is in a body larger than is read for it
	Busy         Reason = "busy"           // 429: others held the key for as long as the request could wait
	QueueFull    Reason = "queue_full"     // 429: too many wait for the key already
	KeyFailed    Reason = "key_failed"     // 500: the key function failed
	Failed       Reason = "failed"         // 500: the handler of an equal request, which was to answer, panicked
	Lost         Reason = "lost"           // 503: the lease was lost while the handler ran
	Unavailable  Reason = "unavailable"    // 503: the lock's backend cannot be asked
	MaxHold      Reason = "max_hold"       // 504: the handler ran for longer than WithMaxHold
)

func (r Reason) status() int {
	switch r {
	case NoKey:
		return http.StatusBadRequest
	case Interrupted:
		return http.StatusConflict
	case BodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case Busy, QueueFull:
		return http.StatusTooManyRequests
	case Lost, Unavailable:
		return http.StatusServiceUnavailable
	case MaxHold:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

// detail is what the client is told where nothing more exact is known.
func (r Reason) detail() string {
	switch r {
	case NoKey:
		return "the request does not carry what its key is made of"
	case Interrupted:
		return "the request was interrupted"
	case BodyTooLarge:
		return "the request body is too large"
	case Busy:
		return "another request with the same key is still being served"
	case QueueFull:
		return "too many requests with the same key are waiting"
	case Lost:
		return "the request was stopped because its lock was lost"
	case Unavailable:
		return "the lock service is unavailable"
	case MaxHold:
		return "the request took longer than it is allowed to"
	case Failed:
		return "the handler that was to answer has failed"
	default:
		return "the key of the request could not be determined"
	}
}
