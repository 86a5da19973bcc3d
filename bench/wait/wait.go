// SPDX-License-Identifier: MIT
//
// Measures the same as wait.c with Go's net/http: it has the same clients, the same live tree and
// the same number of kept answers, and prints the same line of figures. GOGC determines how often
// collections run.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"runtime"
	"sort"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const body = "Hello world.\n"
const kept = 16

type node struct {
	left, right *node
	rest        [48]byte
}

func grow(nodes int) *node {
	if nodes <= 0 {
		return nil
	}
	left := (nodes - 1) / 2
	return &node{left: grow(left), right: grow(nodes - 1 - left)}
}

func count(n *node) int {
	if n == nil {
		return 0
	}
	return 1 + count(n.left) + count(n.right)
}

type answer struct {
	headers http.Header
	body    []byte
}

func ask(client *http.Client, address string) answer {
	response, err := client.Get(address)
	if err != nil {
		log.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || string(text) != body || response.Header.Get("Date") == "" {
		log.Fatalf("answered %q: %v", text, err)
	}
	return answer{response.Header, text}
}

// Allocates outside of the heap, because the heap's size determines how often collections run.
func outside(room int) []uint32 {
	memory, err := syscall.Mmap(-1, 0, room*4, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		log.Fatal(err)
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&memory[0])), room)[:0]
}

func main() {
	seconds := flag.Float64("seconds", 1, "that count")
	warm := flag.Float64("warm", 0.2, "seconds before that")
	clients := flag.Int("clients", 4*runtime.GOMAXPROCS(0), "at once")
	live := flag.Int("live", 512, "KiB of the tree")
	name := flag.String("name", "none", "of the level")
	flag.Parse()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	address := "http://" + listener.Addr().String() + "/"
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, body)
	})}
	go server.Serve(listener)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *clients}}

	nodes := *live * 1024 / 64
	root := grow(nodes)
	from := time.Now().Add(time.Duration(*warm * 1e9))
	to := from.Add(time.Duration(*seconds * 1e9))
	latencies := make([][]uint32, *clients)
	var group sync.WaitGroup
	for i := range latencies {
		latencies[i] = outside(int(*seconds*50000) + 1000)
		group.Add(1)
		go func(i int) {
			defer group.Done()
			var answers [kept]answer
			for turn := 0; ; turn++ {
				began := time.Now()
				if !began.Before(to) && len(latencies[i]) > 0 {
					return
				}
				got := ask(client, address)
				if !began.Before(from) {
					latencies[i] = append(latencies[i], uint32(time.Since(began)))
				}
				if old := answers[turn%kept]; old.body != nil && !bytes.Equal(old.body, got.body) {
					log.Fatal("a kept answer has changed")
				}
				answers[turn%kept] = got
			}
		}(i)
	}
	var before, after runtime.MemStats
	time.Sleep(time.Until(from))
	runtime.ReadMemStats(&before)
	time.Sleep(time.Until(to))
	runtime.ReadMemStats(&after)
	group.Wait()
	if count(root) != nodes {
		log.Fatal("the tree has changed")
	}

	var all []uint32
	for _, each := range latencies {
		all = append(all, each...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	n, allocated := len(all), float64(after.TotalAlloc-before.TotalAlloc)
	collections := float64(after.NumGC - before.NumGC)
	fmt.Printf("BenchmarkHTTP/level=%s %d %.0f ns/op %d p50-ns %d p95-ns %d p99-ns %d p999-ns %.0f B/op "+
		"%.0f GC/s %.0f B/GC\n", *name, n, *seconds*1e9/float64(n), all[n/2], all[n*95/100],
		all[n*99/100], all[n*999/1000], allocated/float64(n), collections / *seconds,
		allocated/math.Max(collections, 1))
}
