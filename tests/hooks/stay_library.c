/* SPDX-License-Identifier: MIT */
/*
 * A library that does not know sennit, and remembers properties of its thread across calls that
 * wait, in the forms that libraries use. stay_test.sh compiles it with each compiler; stay.c loads
 * it.
 */
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

/* A call whose result the compiler can neither see nor keep. */
static pthread_t (*volatile thread_now)(void) = pthread_self;

static __thread int last_error __attribute__((tls_model("global-dynamic")));

static NOINLINE void note_error(int error)
{
	__asm__ volatile("" : : : "memory");
	last_error = error;
}

static NOINLINE void note_host_error(int error)
{
	__asm__ volatile("" : : : "memory");
	h_errno = error;
}

static NOINLINE ssize_t try(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT);
}

static NOINLINE void wait_for(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};

	poll(&one, 1, -1);
}

/* Like socket_base_t::recv() of libzmq: a wake-up does not mean that there is a message, and EAGAIN
 * is not a failure. */
static NOINLINE bool errno_is_right(int fd)
{
	if (try(fd) >= 0 || errno != EAGAIN)
		return false;
	wait_for(fd);
	if (try(fd) < 0)
		return false;
	return try(fd) < 0 && errno == EAGAIN;
}

/* Sets errno to a value that no call sets, through an address that may be outdated, and then reads
 * it through a new one. */
static NOINLINE bool errno_is_set_right(int fd)
{
	errno = 0;
	wait_for(fd);
	if (try(fd) < 0)
		return false;
	errno = 0;
	return try(fd) < 0 && errno == EAGAIN;
}

static NOINLINE bool host_error_is_right(int fd)
{
	h_errno = 0;
	wait_for(fd);
	try(fd);
	note_host_error(NO_RECOVERY);
	if (h_errno != NO_RECOVERY)
		return false;
	h_errno = 0;
	return true;
}

static NOINLINE bool thread_is_right(int fd)
{
	const pthread_t before = pthread_self();

	wait_for(fd);
	try(fd);
	return pthread_equal(before, thread_now()) && pthread_equal(pthread_self(), thread_now());
}

static NOINLINE bool thread_local_is_right(int fd)
{
	last_error = 0;
	wait_for(fd);
	try(fd);
	note_error(7);
	if (last_error != 7)
		return false;
	last_error = 0;
	return true;
}

/* The address is kept in the heap, where no tool would look for it. */
static NOINLINE bool kept_address_is_right(int fd)
{
	int **kept = malloc(sizeof *kept);
	bool right;

	*kept = &errno;
	wait_for(fd);
	try(fd);
	right = try(-1) < 0 && **kept == EBADF;
	free(kept);
	return right;
}

/* The registers are saved in a jmp_buf. */
static NOINLINE bool jump_is_right(int fd)
{
	jmp_buf buf;

	errno = 0;
	if (setjmp(buf) == 0) {
		wait_for(fd);
		try(fd);
		longjmp(buf, 1);
	}
	return try(fd) < 0 && errno == EAGAIN;
}

/* A sleep parks, too. */
static NOINLINE bool sleep_is_right(int fd)
{
	const struct timespec time = {.tv_nsec = 1000000};
	bool right;

	errno = 0;
	nanosleep(&time, NULL);
	right = try(-1) < 0 && errno == EBADF;
	wait_for(fd);
	try(fd);
	return right;
}

static const struct {
	const char *name;
	bool (*is_right)(int fd);
	int waits;
} shapes[] = {
	{"errno after a wait that succeeds", errno_is_right, 1},
	{"errno set before a wait", errno_is_set_right, 1},
	{"h_errno", host_error_is_right, 1},
	{"pthread_self()", thread_is_right, 1},
	{"a thread-local of a loaded library", thread_local_is_right, 1},
	{"an address in the heap", kept_address_is_right, 1},
	{"setjmp() before, longjmp() after", jump_is_right, 1},
	{"errno set before a sleep", sleep_is_right, 2},
};

const char *stay_name(int shape)
{
	return shape < (int)(sizeof shapes / sizeof shapes[0]) ? shapes[shape].name : NULL;
}

/* How often each shape waits. */
int stay_waits(int shape)
{
	return shapes[shape].waits;
}

/* Whether the shape was right. Each call takes one byte, for which it waits. */
int stay_check(int shape, int fd)
{
	return shapes[shape].is_right(fd);
}
