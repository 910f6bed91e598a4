//go:build !race

package place_test

// raced says that the race detector is on, which makes the trace ten times as long.
const raced = false
