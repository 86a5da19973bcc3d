// SPDX-License-Identifier: MIT
//
// The rows of bench-tasks in Go: tasks ROW PROCESSORS prints one number, see tasks.py.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func perOp(began time.Time, n int) float64 {
	return float64(time.Since(began).Nanoseconds()) / float64(n)
}

func spawnAll() float64 {
	const n = 1000000
	all := make([]chan struct{}, n)
	began := time.Now()
	for i := range all {
		done := make(chan struct{})
		all[i] = done
		go func() { close(done) }()
	}
	for _, done := range all {
		<-done
	}
	return perOp(began, n)
}

func spawnGroup() float64 {
	const n = 1000000
	var all sync.WaitGroup
	began := time.Now()
	all.Add(n)
	for i := 0; i < n; i++ {
		go all.Done()
	}
	all.Wait()
	return perOp(began, n)
}

func spawnJoin() float64 {
	const n = 300000
	began := time.Now()
	for i := 0; i < n; i++ {
		done := make(chan struct{})
		go func() { close(done) }()
		<-done
	}
	return perOp(began, n)
}

func yield() float64 {
	const n = 1000000
	var all sync.WaitGroup
	began := time.Now()
	for i := 0; i < 2; i++ {
		all.Add(1)
		go func() {
			for j := 0; j < n; j++ {
				runtime.Gosched()
			}
			all.Done()
		}()
	}
	all.Wait()
	return perOp(began, 2*n)
}

func pingPong() float64 {
	const n = 500000
	ping, pong := make(chan int), make(chan int)
	go func() {
		for v := range ping {
			pong <- v
		}
	}()
	began := time.Now()
	for i := 0; i < n; i++ {
		ping <- i
		<-pong
	}
	took := perOp(began, n)
	close(ping)
	return took
}

func buffered(pairs int) float64 {
	const n = 2000000
	c := make(chan int, 128)
	var senders, receivers sync.WaitGroup
	began := time.Now()
	for i := 0; i < pairs; i++ {
		senders.Add(1)
		go func() {
			for j := 0; j < n/pairs; j++ {
				c <- j
			}
			senders.Done()
		}()
		receivers.Add(1)
		go func() {
			for range c {
			}
			receivers.Done()
		}()
	}
	senders.Wait()
	close(c)
	receivers.Wait()
	return perOp(began, n)
}

func mutex() float64 {
	const n = 4000000
	var m sync.Mutex
	var all sync.WaitGroup
	count := 0
	began := time.Now()
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func() {
			for j := 0; j < n/8; j++ {
				m.Lock()
				count++
				m.Unlock()
			}
			all.Done()
		}()
	}
	all.Wait()
	return perOp(began, n)
}

func selectOf4() float64 {
	const n = 500000
	var c [4]chan int
	for i := range c {
		c[i] = make(chan int)
		go func(c chan int) {
			for j := 0; j < n/4; j++ {
				c <- j
			}
		}(c[i])
	}
	began := time.Now()
	for i := 0; i < n; i++ {
		select {
		case <-c[0]:
		case <-c[1]:
		case <-c[2]:
		case <-c[3]:
		}
	}
	return perOp(began, n)
}

func leaf(up chan int, from, size int) {
	if size == 1 {
		up <- from
		return
	}
	mine := make(chan int)
	for i := 0; i < 10; i++ {
		go leaf(mine, from+i*(size/10), size/10)
	}
	sum := 0
	for i := 0; i < 10; i++ {
		sum += <-mine
	}
	up <- sum
}

func skynet() float64 {
	up := make(chan int)
	began := time.Now()
	go leaf(up, 0, 1000000)
	if <-up != 499999500000 {
		panic("the sum is wrong")
	}
	return perOp(began, 1)
}

func cpu() int64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func sleeps() float64 {
	const n = 1000000
	var all sync.WaitGroup
	began := cpu()
	all.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			time.Sleep(time.Second)
			all.Done()
		}()
	}
	all.Wait()
	return float64(cpu()-began) / n
}

func resident() float64 {
	data, _ := os.ReadFile("/proc/self/statm")
	var size, pages int
	fmt.Sscan(string(data), &size, &pages)
	return float64(pages * os.Getpagesize())
}

func idleBytes() float64 {
	const n = 200000
	stop := make(chan struct{})
	before := resident()
	for i := 0; i < n; i++ {
		go func() { <-stop }()
	}
	time.Sleep(500 * time.Millisecond)
	return (resident() - before) / n
}

func main() {
	procs, _ := strconv.Atoi(os.Args[2])
	runtime.GOMAXPROCS(procs)
	rows := map[string]func() float64{
		"spawn-all": spawnAll, "spawn-group": spawnGroup, "spawn-join": spawnJoin, "yield": yield, "ping-pong": pingPong,
		"buffered-1": func() float64 { return buffered(1) },
		"buffered-4": func() float64 { return buffered(4) },
		"mutex-8":      mutex, "select-4": selectOf4, "skynet": skynet, "sleeps": sleeps,
		"idle-task": idleBytes,
	}
	fmt.Println(rows[os.Args[1]]())
}
