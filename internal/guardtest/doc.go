// Package guardtest has what tests of guarded requests need on both sides of
// the guard: a Locker whose leases a test can end, and an observer that
// remembers.
package guardtest
