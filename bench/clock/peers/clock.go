// SPDX-License-Identifier: MIT

// The cost of Go's clock: lines "name, tab, ns", as bench-clock --counter prints them. time.Since
// reads only the monotonic clock (runtime.nanotime), time.Now reads that and the wall clock.
package main

import (
	"fmt"
	"math"
	"time"
)

const times = 20000
const rounds = 15

var instant time.Time
var duration time.Duration

func measure(name string, loop func()) {
	best := math.Inf(1)
	for i := 0; i < rounds; i++ {
		began := time.Now()
		loop()
		best = math.Min(best, float64(time.Since(began).Nanoseconds())/times)
	}
	fmt.Printf("%s\t%.2f\n", name, best)
}

func main() {
	epoch := time.Now()
	measure("Go time.Since", func() {
		for i := 0; i < times; i++ {
			duration = time.Since(epoch)
		}
	})
	measure("Go time.Now", func() {
		for i := 0; i < times; i++ {
			instant = time.Now()
		}
	})
}
