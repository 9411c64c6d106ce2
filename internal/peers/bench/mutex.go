package main

import (
	"context"
	"sync"
)

// mutexes are one sync.Mutex for each key.
type mutexes struct{ byKey sync.Map }

func openMutex(setup) (locker, error) { return new(mutexes), nil }

func (l *mutexes) Lock(_ context.Context, key string) (func() error, error) {
	m, _ := l.byKey.LoadOrStore(key, new(sync.Mutex))
	m.(*sync.Mutex).Lock()
	return func() error { m.(*sync.Mutex).Unlock(); return nil }, nil
}
