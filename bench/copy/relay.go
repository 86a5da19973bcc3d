// SPDX-License-Identifier: MIT

// relay splice|copy PORT SINK_PORT: relays one connection at a time in one direction with io.Copy:
// with splice, as Go's net package does, or with splice defeated by hiding the connection's type.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

type hidden struct{ io.Writer }

type plain struct{ io.Reader }

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay.go:", err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: relay splice|copy PORT SINK_PORT")
		os.Exit(2)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[2])
	check(err)
	fmt.Println("ready")
	for {
		from, err := listener.Accept()
		check(err)
		to, err := net.Dial("tcp", "127.0.0.1:"+os.Args[3])
		check(err)
		if os.Args[1] == "splice" {
			_, err = io.Copy(to, from)
		} else {
			buffer := make([]byte, 64<<10)
			_, err = io.CopyBuffer(hidden{to}, plain{from}, buffer)
		}
		check(err)
		from.Close()
		to.Close()
	}
}
