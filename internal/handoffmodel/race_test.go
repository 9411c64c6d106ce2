//go:build race

package handoffmodel_test

// Exploring is ten times slower under the race detector, and has one goroutine.
const underRace = true
