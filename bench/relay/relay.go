// SPDX-License-Identifier: MIT

// relay PORT SINK_PORT: the usual relay in Go: for each direction a goroutine and an io.Copy, which
// splices.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay.go:", err)
		os.Exit(1)
	}
}

func relay(client *net.TCPConn, sink string) {
	defer client.Close()
	dialed, err := net.Dial("tcp", sink)
	if err != nil {
		return
	}
	backend := dialed.(*net.TCPConn)
	defer backend.Close()
	var back sync.WaitGroup
	back.Add(1)
	go func() {
		defer back.Done()
		io.Copy(client, backend)
		client.CloseWrite()
	}()
	io.Copy(backend, client)
	backend.CloseWrite()
	back.Wait()
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: relay PORT SINK_PORT")
		os.Exit(2)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	check(err)
	for {
		client, err := listener.Accept()
		check(err)
		go relay(client.(*net.TCPConn), "127.0.0.1:"+os.Args[2])
	}
}
