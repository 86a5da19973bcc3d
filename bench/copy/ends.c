/* SPDX-License-Identifier: MIT */
/*
 * bench-copy-ends CHUNK SECONDS PORT SINK_PORT: the sender and the sink. Sends chunks of CHUNK
 * bytes through the relay that listens on PORT and connects to SINK_PORT, and prints how many bytes
 * arrived in how many nanoseconds.
 *
 * As in Go's BenchmarkTCPReadFrom: one connection, blocking writes of one chunk each, and a reader
 * that discards the bytes, after copying them out of the kernel as real receivers do.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../plain.h"

#define SINK_BUFFER ((size_t)256 << 10)

struct sender {
	size_t chunk;
	int64_t ns;
	const char *port;
	uint64_t sent;
};

static void *send_all(void *arg)
{
	struct sender *sender = arg;
	struct sockaddr_in address = at(sender->port);
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	char *data = calloc(1, sender->chunk);
	int64_t end;

	check(data != NULL, "calloc");
	check(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	end = now() + sender->ns;
	while (now() < end)
		for (int i = 0; i < 16; i++)
			for (size_t done = 0; done < sender->chunk;) {
				ssize_t n = send(fd, data + done, sender->chunk - done, 0);

				check(n > 0, "send");
				done += (size_t)n;
				sender->sent += (uint64_t)n;
			}
	close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sender sender;
	struct sockaddr_in address;
	char *buffer = malloc(SINK_BUFFER);
	uint64_t got = 0;
	int64_t began;
	int listener, fd, one = 1;
	pthread_t thread;
	ssize_t n;

	if (argc != 5 || !buffer) {
		fprintf(stderr, "usage: bench-copy-ends CHUNK SECONDS PORT SINK_PORT\n");
		return 2;
	}
	sender = (struct sender){.chunk = (size_t)atol(argv[1]),
				 .ns = (int64_t)(atof(argv[2]) * 1e9),
				 .port = argv[3]};
	listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	address = at(argv[4]);
	check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
	check(listen(listener, 8) == 0, "listen");
	check(pthread_create(&thread, NULL, send_all, &sender) == 0, "pthread_create");
	fd = accept(listener, NULL, NULL);
	check(fd >= 0, "accept");
	began = now();
	while ((n = recv(fd, buffer, SINK_BUFFER, 0)) > 0)
		got += (uint64_t)n;
	check(n == 0, "recv");
	began = now() - began;
	pthread_join(thread, NULL);
	if (got != sender.sent) {
		fprintf(stderr, "bench-copy-ends: sent %llu bytes, got %llu\n",
			(unsigned long long)sender.sent, (unsigned long long)got);
		return 1;
	}
	printf("%llu %lld\n", (unsigned long long)got, (long long)began);
	return 0;
}
