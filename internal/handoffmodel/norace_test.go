//go:build !race

package handoffmodel_test

const underRace = false
