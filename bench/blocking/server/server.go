// SPDX-License-Identifier: MIT
//
// The server of server.c, in Go. A slow request calls nanosleep(2), not time.Sleep(), because it
// represents a call that blocks the thread.
package main

import (
	"fmt"
	"net"
	"syscall"
)

func session(peer net.Conn) {
	defer peer.Close()
	buf := make([]byte, 1)
	for {
		if n, err := peer.Read(buf); n != 1 || err != nil {
			return
		}
		if buf[0] == 's' {
			nap := syscall.Timespec{Nsec: 5000000}
			syscall.Nanosleep(&nap, nil)
		}
		if _, err := peer.Write(buf); err != nil {
			return
		}
	}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for {
		peer, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go session(peer)
	}
}
