// Package guardtest has what tests of guarded requests need on both sides of
// the guard: a Locker whose leases a test can end, one that can fail, and an
// observer that remembers.
package guardtest
