/* SPDX-License-Identifier: MIT */
/*
 * Names by the C library's resolver, asked of a name server in a network namespace of the program's
 * own: what it answers, what it refuses and what it says nothing to. Exits with 77 where there can
 * be no such namespace.
 */
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "check.h"

/* ---- the name server ---- */

/* A record of the answer: a pointer to the name in the question, type, class IN, a minute. */
static size_t put_record(unsigned char *to, int type, const void *data, size_t size)
{
	const unsigned char head[12] = {0xc0, 12, 0, (unsigned char)type, 0, 1, 0, 0,
					0,    60, 0, (unsigned char)size};

	memcpy(to, head, sizeof head);
	memcpy(to + sizeof head, data, size);
	return sizeof head + size;
}

/* Makes the answer in place, from the question. Returns its size; 0: none. The first letter of the
 * name says what it is. */
static size_t answer(unsigned char *message, size_t size)
{
	static const unsigned char local[4] = {127, 0, 0, 1};
	static const unsigned char offer[] = "\0\1\0\2\0\120\3one\4test"; /* 1, 2, port 80 */
	const int type = message[size - 3];

	message[2] = 0x81; /* an answer; recursion was desired */
	message[3] = 0x80;
	message[10] = message[11] = 0; /* no additional records */
	switch (message[13]) {
	case 'o':
		if (type != ns_t_a && type != ns_t_srv)
			return size;
		message[7] = 1;
		return size + (type == ns_t_a
				       ? put_record(message + size, type, local, sizeof local)
				       : put_record(message + size, type, offer, sizeof offer));
	case 'g':
		message[3] |= ns_r_nxdomain;
		return size;
	case 'e':
		return size;
	default:
		return 0;
	}
}

static void serve(int fd)
{
	unsigned char message[1024];
	struct sockaddr_in from;
	socklen_t length = sizeof from;
	ssize_t n;

	while ((n = recvfrom(fd, message, 512, 0, (struct sockaddr *)&from, &length)) > 16) {
		const size_t size = answer(message, (size_t)n);

		if (size > 0)
			sendto(fd, message, size, 0, (struct sockaddr *)&from, length);
	}
}

static pid_t start_server(void)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons(53),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	pid_t child;

	CHECK(fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(120);
		serve(fd);
		_exit(0);
	}
	close(fd);
	return child;
}

/* ---- its network ---- */

static void leave_network(void)
{
	static const char servers[] = "nameserver 127.0.0.1\noptions timeout:1 attempts:2\n";
	char name[] = "/tmp/sennit-names-XXXXXX";
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd;

	if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0) {
		fprintf(stderr, "skipped: there can be no network namespace\n");
		exit(77);
	}
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0);
	close(fd);
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	fd = mkstemp(name);
	CHECK(fd >= 0 && write(fd, servers, sizeof servers - 1) == sizeof servers - 1);
	close(fd);
	CHECK(mount(name, "/etc/resolv.conf", NULL, MS_BIND, NULL) == 0);
	CHECK(unlink(name) == 0);
}

/* ---- the questions ---- */

static int look_up(const char *name, uint32_t flags)
{
	sn_resolved *found;
	const int err = sn_resolve(&found, name, "80", flags, sn_after(60 * SECOND));
	const struct sockaddr_in *v4;

	if (err < 0)
		return err;
	v4 = (const struct sockaddr_in *)&found->addresses[0].address;
	CHECK(v4->sin_family == AF_INET && v4->sin_port == htons(80));
	CHECK(v4->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	sn_resolved_free(found);
	return 0;
}

static int look_up_service(const char *name, int64_t deadline)
{
	sn_srv_list *list;
	const int err = sn_resolve_srv(&list, name, deadline);

	if (err < 0)
		return err;
	CHECK(list->count == 1 && list->records[0].priority == 1 && list->records[0].weight == 2);
	CHECK(list->records[0].port == 80 && strcmp(list->records[0].target, "one.test") == 0);
	sn_srv_list_free(list);
	return 0;
}

static int ticks(void *arg)
{
	while (sn_sleep(MS) == 0)
		++*(int *)arg;
	return 0;
}

static int first(void *arg)
{
	const int64_t late = sn_after(100 * SECOND);
	int64_t before;
	sn_scope *scope;
	int ticked = 0;

	(void)arg;
	CHECK(look_up("localhost", SN_RESOLVE_IPV4) == 0);
	CHECK(look_up("127.0.0.1", 0) == 0);
	CHECK(look_up("one.test", 0) == 0);
	CHECK(look_up("gone.test", 0) == -ENOENT);
	CHECK(look_up_service("one._tcp.test", late) == 0);
	CHECK(look_up_service("gone._tcp.test", late) == -ENOENT);
	CHECK(look_up_service("empty._tcp.test", late) == -ENOENT);

	/* Other tasks run while the resolver waits for an answer that does not come. */
	CHECK(sn_scope_open(&scope, SN_NO_DEADLINE) == 0);
	CHECK(sn_scope_go(scope, ticks, &ticked) == 0);
	before = sn_now();
	CHECK(look_up_service("never._tcp.test", sn_after(50 * MS)) == -ETIMEDOUT);
	CHECK(sn_now() - before >= 50 * MS && ticked > 0);
	CHECK(look_up_service("never._tcp.test", late) == -EAGAIN);
	sn_scope_cancel(scope);
	sn_scope_close(scope);
	return 0;
}

int main(void)
{
	pid_t server;
	int err;

	alarm(120);
	leave_network();
	server = start_server();
	err = sn_run(first, NULL);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return err != 0;
}
