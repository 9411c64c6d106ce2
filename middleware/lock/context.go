package lock

import "context"

type leaseKey struct{}

// NewContext returns a child of ctx in which [From] finds the lease, or none if that
// is nil. A Locker uses it to make the context of a lease.
func NewContext(ctx context.Context, lease Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, lease)
}

// From returns the lease that the work with this context runs under: inside a
// guarded handler, that of the request's context.
//
//	lease, ok := lock.From(r.Context())
//	if ok {
//		err = store.Write(ctx, lease.Fence(), order) // refused if a newer holder has written
//	}
func From(ctx context.Context) (Lease, bool) {
	lease, ok := ctx.Value(leaseKey{}).(Lease)
	return lease, ok
}
