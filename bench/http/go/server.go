// SPDX-License-Identifier: MIT
//
// server [DATABASE CONNECTIONS]: an HTTP server on net/http that answers / with "hello, world\n"
// and /db?n=N with the square of N, from PostgreSQL. It prints its port. It has the time limits
// that a server on the internet needs. HTTP_CERTIFICATE and HTTP_KEY name files, to speak TLS.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

func hello(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	w.Write([]byte("hello, world\n"))
}

func open(database string, connections string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(connections)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(n)
	return pgxpool.NewWithConfig(context.Background(), config)
}

func square(pool *pgxpool.Pool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		var text string
		err := pool.QueryRow(r.Context(), "select ($1::int * $1::int)::text", n).Scan(&text)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Write([]byte(text + "\n"))
	}
}

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	if len(os.Args) > 2 {
		pool, err := open(os.Args[1], os.Args[2])
		if err != nil {
			panic(err)
		}
		mux.HandleFunc("/db", square(pool))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	server := http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       60 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       60 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // of clients that go during a handshake
	}
	if certificate := os.Getenv("HTTP_CERTIFICATE"); certificate != "" {
		// Turns HTTP/2 off, because the other servers do not have it.
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
		panic(server.ServeTLS(listener, certificate, os.Getenv("HTTP_KEY")))
	}
	panic(server.Serve(listener))
}
