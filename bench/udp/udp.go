// SPDX-License-Identifier: MIT
//
// The server of bench/udp in Go: one goroutine echoes datagrams, one at a time.
package main

import (
	"fmt"
	"net"
	"os"
)

func main() {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		panic(err)
	}
	fmt.Println(conn.LocalAddr().(*net.UDPAddr).Port)
	go func() {
		var byte [1]byte
		for {
			if n, err := os.Stdin.Read(byte[:]); n == 0 || err != nil {
				os.Exit(0)
			}
		}
	}()
	buf := make([]byte, 2048)
	for {
		n, peer, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			panic(err)
		}
		if _, err := conn.WriteToUDPAddrPort(buf[:n], peer); err != nil {
			panic(err)
		}
	}
}
