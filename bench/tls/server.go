// SPDX-License-Identifier: MIT
//
// server chain.pem key.pem FOLDER: the same as server.c, on crypto/tls. It prints its port.
package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

const buffer = 64 << 10

type open struct {
	file *os.File
	size int64
}

// The files that have been asked for.
var files sync.Map

func findFile(name string) (*open, error) {
	if found, ok := files.Load(name); ok {
		return found.(*open), nil
	}
	file, err := os.Open(os.Args[3] + "/" + name)
	if err != nil {
		return nil, err
	}
	about, err := file.Stat()
	if err != nil {
		return nil, err
	}
	found := &open{file, about.Size()}
	files.Store(name, found)
	return found, nil
}

func answerFile(conn net.Conn, name string) error {
	found, err := findFile(name)
	if err != nil {
		return err
	}
	buf := make([]byte, min(found.size+128, buffer))
	filled := len(fmt.Appendf(buf[:0], "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", found.size))
	for at := int64(0); at < found.size; filled = 0 {
		n, err := found.file.ReadAt(buf[filled:], at)
		if n == 0 && err != nil {
			return err
		}
		at += int64(n)
		if _, err := conn.Write(buf[:filled+n]); err != nil {
			return err
		}
	}
	return nil
}

func sendForever(conn net.Conn, size int) error {
	buf := make([]byte, size)
	for {
		if _, err := conn.Write(buf); err != nil {
			return err
		}
	}
}

func readForever(conn net.Conn) error {
	buf := make([]byte, buffer)
	for {
		if _, err := conn.Read(buf); err != nil {
			return err
		}
	}
}

func answer(conn net.Conn, request []byte) error {
	path, _, _ := bytes.Cut(request, []byte(" HTTP/"))
	text := string(path)
	if name, ok := strings.CutPrefix(text, "GET /file/"); ok {
		return answerFile(conn, name)
	}
	if number, ok := strings.CutPrefix(text, "GET /stream/"); ok {
		size, err := strconv.Atoi(number)
		if err != nil {
			return err
		}
		return sendForever(conn, size)
	}
	if strings.HasPrefix(text, "GET /sink") {
		return readForever(conn)
	}
	_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")
	return err
}

func serve(conn net.Conn) {
	request := make([]byte, 512)
	for {
		n, err := conn.Read(request)
		if err != nil || answer(conn, request[:n]) != nil {
			break
		}
	}
	conn.Close()
}

func main() {
	certificate, err := tls.LoadX509KeyPair(os.Args[1], os.Args[2])
	if err != nil {
		panic(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go serve(conn)
	}
}
