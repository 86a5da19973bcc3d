/* SPDX-License-Identifier: MIT */
/*
 * bench-udp-load PORT SIZE PEERS SECONDS: sends datagrams to a server that echoes them, with WINDOW
 * under way, and prints how many came back and in how many ns.
 *
 * The peers are loopback addresses, from 127.0.1.1 on, of one socket, so the load costs the same
 * for one peer and for a thousand; batches keep it cheap. Datagrams that do not come back within 20
 * ms count as lost, and the same number is sent again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../check.h"

#define WINDOW 64
#define ROOM 2048

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
};

static char data[WINDOW][ROOM];
static struct iovec parts[WINDOW];
static struct mmsghdr messages[WINDOW];
static union control controls[WINDOW];
static struct sockaddr_in server;

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int receive(int fd)
{
	for (int i = 0; i < WINDOW; i++) {
		parts[i] = (struct iovec){.iov_base = data[i], .iov_len = ROOM};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
	}
	return recvmmsg(fd, messages, WINDOW, MSG_WAITFORONE, NULL);
}

/* Not inline, because GCC 12 fails on the loop around the call. */
__attribute__((noinline)) static void prepare(int i, size_t size, unsigned peer)
{
	const struct in_pktinfo info = {.ipi_spec_dst.s_addr =
						htonl(0x7f000101 + peer / 250 * 256 + peer % 250)};

	controls[i].align.cmsg_level = IPPROTO_IP;
	controls[i].align.cmsg_type = IP_PKTINFO;
	controls[i].align.cmsg_len = CMSG_LEN(sizeof info);
	memcpy(CMSG_DATA(&controls[i].align), &info, sizeof info);
	parts[i] = (struct iovec){.iov_base = data[i], .iov_len = size};
	messages[i].msg_hdr = (struct msghdr){.msg_name = &server,
					      .msg_namelen = sizeof server,
					      .msg_iov = &parts[i],
					      .msg_iovlen = 1,
					      .msg_control = &controls[i],
					      .msg_controllen = sizeof controls[i]};
}

static void send_some(int fd, int n, size_t size, unsigned peers)
{
	static unsigned turn;

	for (int i = 0; i < n; i++) {
		turn = (turn + 1) % peers;
		prepare(i, size, turn);
	}
	for (int done = 0; done < n;) {
		int sent = sendmmsg(fd, messages + done, (unsigned)(n - done), 0);

		CHECK(sent > 0);
		done += sent;
	}
}

int main(int argc, char **argv)
{
	const struct timeval patience = {.tv_usec = 20000};
	const int fd = socket(AF_INET, SOCK_DGRAM, 0), large = 4 << 20;
	struct sockaddr_in any = {.sin_family = AF_INET};
	uint64_t answers = 0, lost = 0;
	int64_t begin, end;
	size_t size;
	unsigned peers;

	CHECK(argc == 5 && fd >= 0);
	size = (size_t)atoi(argv[2]);
	peers = (unsigned)atoi(argv[3]);
	CHECK(size <= ROOM && peers >= 1 && peers <= 1000);
	server = (struct sockaddr_in){.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)atoi(argv[1])),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	CHECK(bind(fd, (struct sockaddr *)&any, sizeof any) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &large, sizeof large);
	begin = now();
	end = begin + (int64_t)(atof(argv[4]) * 1e9);
	send_some(fd, WINDOW, size, peers);
	while (now() < end) {
		int n = receive(fd);

		if (n > 0)
			answers += (uint64_t)n;
		else
			lost += WINDOW;
		send_some(fd, n > 0 ? n : WINDOW, size, peers);
	}
	printf("%llu %lld %llu\n", (unsigned long long)answers, (long long)(now() - begin),
	       (unsigned long long)lost);
	return 0;
}
