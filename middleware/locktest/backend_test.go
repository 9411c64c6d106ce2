package locktest_test

import (
	"errors"
	"sync"
	"time"

	"github.com/reqlock/reqlock/middleware/lock"
)

// A backend is what toys of several processes share.
type backend struct {
	fault   string
	mu      sync.Mutex
	away    bool
	records map[string]*record
	fences  map[string]uint64
	marked  map[string]bool // keys that were interrupted, for a fault
}

type record struct {
	holder      *toyLease
	expires     time.Time
	interrupted bool
}

// lock takes the mutex, after the time that the way takes. While the backend is
// away it fails after a timeout, without the mutex.
func (b *backend) lock() error {
	time.Sleep(20 * time.Microsecond)
	b.mu.Lock()
	for b.away {
		b.mu.Unlock()
		time.Sleep(400 * time.Millisecond)
		if b.fault != "a call hangs while the backend is away" {
			return lock.ErrUnavailable
		}
		b.mu.Lock()
	}
	return nil
}

func (b *backend) setAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

// live returns the record of a key that is held.
func (b *backend) live(key string) *record {
	r := b.records[key]
	if r != nil && time.Now().After(r.expires) {
		delete(b.records, key)
		return nil
	}
	return r
}

// mine returns the record of a lease, or why it is not the holder's any more.
func (b *backend) mine(key string, s *toyLease) (*record, error) {
	r := b.live(key)
	switch {
	case r == nil:
		return nil, lock.ErrExpired
	case r.holder != s:
		return nil, lock.ErrStolen
	}
	return r, nil
}

func (b *backend) ping() error {
	if err := b.lock(); err != nil {
		return err
	}
	b.mu.Unlock()
	return nil
}

func (b *backend) take(key string, s *toyLease) error {
	if err := b.lock(); err != nil {
		return err
	}
	defer b.mu.Unlock()
	r := b.live(key)
	if r != nil && b.fault != "nobody is excluded" {
		return lock.ErrBusy
	}
	b.records[key] = &record{holder: s, expires: time.Now().Add(s.ttl)}
	if b.fault != "fences repeat" {
		b.fences[key]++
	}
	s.fence = 1 + b.fences[key]
	return nil
}

func (b *backend) extend(key string, s *toyLease) (interrupted bool, err error) {
	if err := b.lock(); err != nil {
		return false, err
	}
	defer b.mu.Unlock()
	r, err := b.mine(key, s)
	switch {
	case b.fault == "a lost lease is taken again" && r == nil:
		b.records[key] = &record{holder: s, expires: time.Now().Add(s.ttl)}
		return false, nil
	case b.fault == "there is no renewal":
		return false, nil
	case b.fault == "a stolen lease goes on" && errors.Is(err, lock.ErrStolen):
		return false, nil
	case err != nil:
		return false, err
	}
	r.expires = time.Now().Add(s.ttl)
	return r.interrupted || b.marked[key], nil
}

func (b *backend) leave(key string, s *toyLease) error {
	if err := b.lock(); err != nil {
		return err
	}
	defer b.mu.Unlock()
	_, err := b.mine(key, s)
	if err == nil || b.fault == "release deletes whatever is there" {
		delete(b.records, key)
	}
	return err
}

func (b *backend) interrupt(key string) (bool, error) {
	if err := b.lock(); err != nil {
		return false, err
	}
	defer b.mu.Unlock()
	r := b.live(key)
	if r != nil {
		r.interrupted = true
		b.marked[key] = b.fault == "an interrupt is for the key"
	}
	return r != nil, nil
}

func (b *backend) lose(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.records, key)
	if b.fault == "fences start again after a loss" {
		delete(b.fences, key)
	}
}
