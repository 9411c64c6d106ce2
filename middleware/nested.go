package middleware

import (
	"context"
	"io"
	"iter"
	"net/http"
	"reflect"

	"github.com/reqlock/reqlock/middleware/lock"
)

// A visit is the context that a guard acquires a key with. The handler's context
// descends from it, so that a guard further in finds out what is held already.
type visit struct {
	context.Context
	guard *Guard
	key   string
	lease lock.Lease // as the handler has it; nil until there is one

	waited bool // for another request
	shared bool // the response is for others, too
}

type visitKey struct{}

func (v *visit) Value(key any) any {
	if _, ok := key.(visitKey); ok {
		return v
	}
	return v.Context.Value(key)
}

// visits are those of the guards further out, the nearest first.
func visits(ctx context.Context) iter.Seq[*visit] {
	return func(yield func(*visit) bool) {
		v, ok := ctx.Value(visitKey{}).(*visit)
		for ok && yield(v) {
			v, ok = v.Context.Value(visitKey{}).(*visit)
		}
	}
}

// outer returns the visit of a guard further out that has acquired the same key
// from the same Locker, and still has it: to acquire it again would be to wait
// for oneself. Keys alone do not tell, since two Lockers with prefixes of their
// own can have keys with the same text. nil: there is none.
func (g *Guard) outer(ctx context.Context, key string) *visit {
	for v := range visits(ctx) {
		if v.key == key && (v.guard == g || same(v.guard.locks, g.locks)) && v.lease != nil && v.lease.Context().Err() == nil {
			return v
		}
	}
	return nil
}

// same does without the panic of == where the type is not comparable.
func same(a, b any) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// holdOn is hold under the lease of an outer guard, which stays that guard's: so
// does the answer to a request whose context ends further out.
func (g *Guard) holdOn(w http.ResponseWriter, r *http.Request, body io.ReadCloser, next http.Handler, lease lock.Lease) *stopped {
	ctx, limit := g.limit(lock.NewContext(r.Context(), lease), lease)
	defer limit.stop()
	defer limit.settle()
	stop := run(ctx, w, r, body, next)
	if r.Context().Err() != nil {
		return nil
	}
	return stop
}
