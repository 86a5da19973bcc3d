/* SPDX-License-Identifier: MIT */
/*
 * An echo server with a thread for each connection, written for threads alone. Prints its port,
 * and serves until it is killed.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static void *serve(void *arg)
{
	const int fd = (int)(intptr_t)arg;
	char bytes[4096];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof bytes)) > 0)
		if (write(fd, bytes, (size_t)n) != n)
			break;
	close(fd);
	return NULL;
}

int main(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	const int listener = socket(AF_INET, SOCK_STREAM, 0);
	pthread_attr_t attr;

	if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1024) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &size) < 0) {
		perror("listener");
		return 1;
	}
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	pthread_attr_init(&attr);
	/* A 32-bit process has no room for a thousand stacks of 8 MiB. */
	pthread_attr_setstacksize(&attr, 128 << 10);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (;;) {
		pthread_t thread;
		const int fd = accept(listener, NULL, NULL);

		if (fd < 0 || pthread_create(&thread, &attr, serve, (void *)(intptr_t)fd) != 0) {
			perror("connection");
			return 1;
		}
	}
}
