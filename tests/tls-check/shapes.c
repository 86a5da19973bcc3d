/* SPDX-License-Identifier: MIT */
/*
 * Code that sennit-tls-check has to report, and code that it must not. command_test.py compiles
 * this file for several machines and lists what it expects of each function. The program is never
 * run, so it needs nothing else.
 *
 * With FRESH, errno is sennit's.
 */
#define _GNU_SOURCE
#ifdef FRESH
#	include <sennit/errno.h>
#else
#	include <errno.h>
#endif
#include <ctype.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int sn_sleep(int64_t ns);
int sn_fd_wait(int fd, int events, int64_t deadline);
int64_t sn_now(void);
void unknown(void);
__attribute__((cold)) void complain(int err);

#define OWN __attribute__((noinline))

extern int descriptor;
static __thread int counter;
__thread int exported_counter;
static void (*volatile callback)(void);

/* With optimization, the compiler keeps the address of errno across the call. */

int implicit_sleep(void)
{
	char c;

	if (read(descriptor, &c, 1) >= 0 || errno != EAGAIN)
		return 2;
	sn_sleep(1000000); /* implicit_sleep parks here */
	if (lseek(descriptor, 0, SEEK_SET) >= 0)
		return 2;
	return errno != ESPIPE;
}

int implicit_wait(void)
{
	char c;

	if (read(descriptor, &c, 1) >= 0 || errno != EAGAIN)
		return 2;
	if (sn_fd_wait(descriptor, POLLIN, sn_now() + 1000000) != -ETIMEDOUT)
		return 2;
	if (lseek(descriptor, 0, SEEK_SET) >= 0)
		return 2;
	return errno != ESPIPE;
}

int implicit_poll(void)
{
	struct pollfd one = {descriptor, POLLIN, 0};

	errno = 0;
	if (poll(&one, 1, 1000) < 0)
		return errno;
	errno = 0;
	return 0;
}

long implicit_number(const char *text)
{
	errno = 0;
	long n = strtol(text, NULL, 10);
	if (errno)
		return -1;
	sn_sleep(1000000);
	errno = 0;
	n += strtol(text + 1, NULL, 10);
	return errno == ERANGE ? -1 : n;
}

/* There are more live values across the call than registers. */
int implicit_crowded(long *v)
{
	long a = v[0], b = v[1], d = v[2], e = v[3], f = v[4], g = v[5], h = v[6], i = v[7];
	long j = v[8], k = v[9], l = v[10], m = v[11], n = v[12];
	char c;

	if (read(descriptor, &c, 1) >= 0 || errno != EAGAIN)
		return 2;
	sn_sleep(1000000);
	if (lseek(descriptor, 0, SEEK_SET) >= 0)
		return 2;
	int bad = errno != ESPIPE;
	v[0] = a * b + d, v[1] = b * d + e, v[2] = d * e + f, v[3] = e * f + g, v[4] = f * g + h;
	v[5] = g * h + a, v[6] = h * a + b, v[7] = i * j + k, v[8] = j * k + l, v[9] = k * l + m;
	v[10] = l * m + n, v[11] = m * n + a, v[12] = n * a + i;
	return bad;
}

static OWN int deeper(void)
{
	return sn_sleep(1000000) + getpid();
}
static OWN int deep(void)
{
	return deeper() * 2;
}
int implicit_callee(void)
{
	char c;

	if (read(descriptor, &c, 1) >= 0 || errno != EAGAIN)
		return 2;
	if (deep() < 0)
		return 2;
	if (lseek(descriptor, 0, SEEK_SET) >= 0)
		return 2;
	return errno != ESPIPE;
}

/* The address is used again in code that is rarely run, which is in a section of its own. */
void implicit_cold(void)
{
	char c;

	if (read(descriptor, &c, 1) >= 0 || errno != EAGAIN)
		return;
	sn_sleep(1000000);
	if (__builtin_expect(lseek(descriptor, 0, SEEK_SET) < 0, 0)) {
		complain(errno);
		unknown();
		complain(errno);
	}
}

/* pthread_self() is declared constant, too. */
int implicit_self(void)
{
	pthread_t me = pthread_self();

	pthread_kill(me, 0);
	sn_sleep(1);
	me = pthread_self();
	return pthread_kill(me, 0);
}

/* The program keeps the address, whatever the compiler does. */

int explicit_error(void)
{
#ifdef FRESH
	return 0;
#else
	int *where = &errno;

	sn_sleep(1);
	return *where;
#endif
}

int explicit_host_error(void)
{
	int *where = &h_errno;

	sn_sleep(1);
	return *where;
}

int explicit_characters(const char *text)
{
	const unsigned short **tables = __ctype_b_loc();

	sn_sleep(1);
	return (*tables)[(unsigned char)*text] & 1;
}

int explicit_self(void)
{
	pthread_t me = pthread_self();

	sn_sleep(1);
	return pthread_kill(me, 0);
}

int explicit_compared(pthread_t *other)
{
	pthread_t me = pthread_self();

	sn_sleep(1);
	return me == *other;
}

int explicit_variable(void)
{
	int *where = &counter;

	*where = 1;
	sn_sleep(1);
	return *where;
}

int explicit_exported(void)
{
	int *where = &exported_counter;

	*where = 1;
	sn_sleep(1);
	return *where;
}

void *explicit_passed(void)
{
	int *where = &counter;

	sn_sleep(1);
	return memset(where, 1, sizeof *where);
}

int *explicit_returned(void)
{
	int *where = &counter;

	sn_sleep(1);
	return where;
}

void explicit_stored(int **into)
{
	int *where = &counter;

	sn_sleep(1);
	*into = where;
}

/* The address comes from a function that only returns it. */
static OWN int *my_counter(void)
{
	return &counter;
}
int explicit_wrapped(void)
{
	int *where = my_counter();

	*where = 1;
	sn_sleep(1);
	return *where;
}

/* In one of many cases, reached by a jump table. */
int explicit_switch(int which, int *v)
{
	switch (which) {
	case 0:
		return v[3] + 1;
	case 1:
		return v[1] * 3;
	case 2:
		v[1] = 3;
		return (int)sn_now();
	case 3: {
		int *where = &counter;
		sn_sleep(1);
		return *where;
	}
	case 4:
		v[2]++;
		return getpid();
	case 5:
		return v[0] ? v[7] : v[8];
	case 6:
		return (int)strlen((char *)v);
	default:
		return -1;
	}
}

/* Whether these functions park is for the user to say. */

int over_unknown(void)
{
	int *where = &counter;

	unknown();
	return *where;
}

int over_pointer(void)
{
	int *where = &counter;

	callback();
	return *where;
}

/* This code is correct. */

int right_after(void)
{
	char c;

	if (read(descriptor, &c, 1) >= 0)
		return 2;
	sn_sleep(1000000);
	if (lseek(descriptor, 0, SEEK_SET) >= 0)
		return 2;
	return errno != ESPIPE;
}

int right_loop(void)
{
	struct pollfd one = {descriptor, POLLIN, 0};
	int n;

	do
		n = poll(&one, 1, 1000);
	while (n < 0 && errno == EINTR);
	return n;
}

int right_harmless(const char *text)
{
	int *where = &counter;
	char *copy = strdup(text);
	size_t n = strlen(text) + (size_t)sn_now();

	free(copy);
	*where = (int)n;
	return (int)n;
}

static OWN __attribute__((noreturn)) void give_up(void)
{
	sn_sleep(1);
	abort();
}
int right_ends(int fd)
{
	int *where = &counter;

	if (fd < 0)
		give_up();
	*where = fd;
	return fd;
}
