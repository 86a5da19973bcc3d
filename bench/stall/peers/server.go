// SPDX-License-Identifier: MIT
//
// The server of ../server.c, in Go. The call that blocks is the C library's usleep(), by cgo.
package main

// #include <unistd.h>
import "C"

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "server.go:", err)
		os.Exit(1)
	}
}

func number(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	check(err)
	return value
}

//go:noinline
func compute(iterations uint64) uint64 {
	x := uint64(88172645463325252)
	for i := uint64(0); i < iterations; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

var sums [2]uint64

func hog(index int, start time.Time) {
	ms := number(os.Args[3])
	period := time.Duration(number(os.Args[4]) * 1e6)
	next := start.Add(time.Duration(index) * time.Duration(number(os.Args[5])*1e6))
	iterations := uint64(ms * number(os.Args[6]))
	for {
		for now := time.Now(); !next.After(now); {
			next = next.Add(period)
		}
		time.Sleep(time.Until(next))
		if os.Args[2] == "compute" {
			sums[index] += compute(iterations)
		} else {
			C.usleep(C.useconds_t(ms * 1e3))
		}
	}
}

func session(peer net.Conn) {
	defer peer.Close()
	buf := make([]byte, 4096)
	for {
		n, err := peer.Read(buf)
		if err != nil {
			return
		}
		if _, err := peer.Write(buf[:n]); err != nil {
			return
		}
	}
}

func main() {
	runtime.GOMAXPROCS(int(number(os.Args[1])))
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	check(err)
	if len(os.Args) > 2 {
		start := time.Now()
		for i := 0; i < 2; i++ {
			go hog(i, start)
		}
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for {
		peer, err := listener.Accept()
		check(err)
		go session(peer)
	}
}
