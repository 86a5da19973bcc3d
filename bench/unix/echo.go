// SPDX-License-Identifier: MIT

// echo unix|tcp CONNECTIONS SIZE SECONDS: echo.c in Go.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "echo.go:", err)
		os.Exit(1)
	}
}

func answer(conn net.Conn, size int, ended *sync.WaitGroup) {
	buf := make([]byte, size)
	for {
		n, err := conn.Read(buf)
		if err == io.EOF {
			break
		}
		check(err)
		_, err = conn.Write(buf[:n])
		check(err)
	}
	conn.Close()
	ended.Done()
}

func ask(conn net.Conn, size int, end time.Time, trips *int64, ended *sync.WaitGroup) {
	buf := make([]byte, size)
	var done int64
	for time.Now().Before(end) {
		_, err := conn.Write(buf)
		check(err)
		_, err = io.ReadFull(conn, buf)
		check(err)
		done++
	}
	atomic.AddInt64(trips, done)
	conn.Close()
	ended.Done()
}

func main() {
	address := "127.0.0.1:0"
	if os.Args[1] == "unix" {
		address = fmt.Sprintf("@sennit-bench-unix-%d", os.Getpid())
	}
	connections, err := strconv.Atoi(os.Args[2])
	check(err)
	size, err := strconv.Atoi(os.Args[3])
	check(err)
	seconds, err := strconv.ParseFloat(os.Args[4], 64)
	check(err)
	listener, err := net.Listen(os.Args[1], address)
	check(err)
	var near, far []net.Conn
	for i := 0; i < connections; i++ {
		conn, err := net.Dial(os.Args[1], listener.Addr().String())
		check(err)
		near = append(near, conn)
		conn, err = listener.Accept()
		check(err)
		far = append(far, conn)
	}
	var trips int64
	var ended sync.WaitGroup
	begin := time.Now()
	end := begin.Add(time.Duration(seconds * 1e9))
	ended.Add(2 * connections)
	for i := range near {
		go answer(far[i], size, &ended)
		go ask(near[i], size, end, &trips, &ended)
	}
	ended.Wait()
	fmt.Println(trips, time.Since(begin).Nanoseconds())
}
