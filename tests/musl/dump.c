/* SPDX-License-Identifier: MIT */
/*
 * A dump names the functions of tasks that are parked, of the one that asks, and of one that
 * computes. A task that blocks in a function of musl is listed; its backtrace ends in that
 * function, because musl has no call-frame information. A stack overflow is reported, with the
 * task.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "check.h"

static atomic_bool stop;
static int ends[2];

/* They are visible to the dump (-rdynamic), and not inlined. */
int dumped_parks(void *arg);
int dumped_computes(void *arg);
int dumped_blocks(void *arg);
int dumped_overflows(void *arg);
void dumped_asks(char *text, size_t size);

__attribute__((noinline)) int dumped_parks(void *arg)
{
	int value;
	const int err = sn_chan_recv(arg, &value);

	CHECK(err == -EPIPE);
	return err == 0;
}

__attribute__((noinline)) int dumped_computes(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		;
	return 0;
}

__attribute__((noinline)) int dumped_blocks(void *arg)
{
	char byte;
	const ssize_t n = read(ends[0], &byte, 1);

	(void)arg;
	CHECK(n == 1);
	return n != 1;
}

/* The text of a dump. */
__attribute__((noinline)) void dumped_asks(char *text, size_t size)
{
	char name[] = "/tmp/sennit-dump-XXXXXX";
	const int fd = mkstemp(name);
	ssize_t length;

	CHECK(fd >= 0 && unlink(name) == 0);
	CHECK(sn_dump(fd) == 0);
	length = pread(fd, text, size - 1, 0);
	CHECK(length > 0);
	text[length] = 0;
	close(fd);
}

/* A function, so that all are started at one place, and printed together. */
static __attribute__((noinline)) void start_parking(sn_task **task, sn_chan *chan)
{
	CHECK(sn_spawn(task, dumped_parks, chan, NULL) == 0);
}

static int first(void *arg)
{
	static const char *const wanted[] = {"dumped_parks",   "dumped_computes", "dumped_asks",
					     "sn_park",        "\"blocked\"",     "2 tasks parked",
					     "end of the dump"};
	struct sn_task_attr attr = SN_TASK_ATTR_INIT(.name = "blocked");
	static char text[65536];
	sn_task *tasks[4];
	sn_chan *chan;

	(void)arg;
	CHECK(pipe(ends) == 0);
	CHECK(sn_chan_new(&chan, sizeof(int), 0) == 0);
	start_parking(&tasks[0], chan);
	start_parking(&tasks[1], chan);
	CHECK(sn_spawn(&tasks[2], dumped_computes, NULL, NULL) == 0);
	CHECK(sn_spawn(&tasks[3], dumped_blocks, NULL, &attr) == 0);
	/* Before all have begun, the dump shows them on their way. alarm() bounds the wait. */
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted;) {
		dumped_asks(text, sizeof text);
		for (i = 0; i < sizeof wanted / sizeof *wanted && strstr(text, wanted[i]); i++)
			;
		if (i < sizeof wanted / sizeof *wanted)
			fprintf(stderr, "no %s yet in:\n%s\n", wanted[i], text);
		CHECK(sn_sleep(10 * MS) == 0);
	}
	atomic_store(&stop, true);
	CHECK(write(ends[1], "x", 1) == 1);
	CHECK(sn_chan_close(chan) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(sn_join(tasks[i], NULL) == 0);
	sn_chan_unref(chan);
	return 0;
}

/* ---- an overflow ---- */

__attribute__((noinline)) int dumped_overflows(void *arg)
{
	volatile char page[4096];

	page[0] = arg != NULL;
	return atomic_load(&stop) ? page[0] : dumped_overflows((void *)page) + page[0];
}

static int overflow(void *arg)
{
	sn_task *task;

	(void)arg;
	CHECK(sn_spawn(&task, dumped_overflows, NULL, NULL) == 0);
	return sn_join(task, NULL);
}

static void overflows(void)
{
	static char said[65536];
	size_t length = 0;
	ssize_t n;
	int status;
	pid_t child;

	atomic_store(&stop, false);
	CHECK(pipe(ends) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(60);
		CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
		CHECK(dup2(ends[1], 2) == 2);
		_exit(sn_run(overflow, NULL));
	}
	close(ends[1]);
	while ((n = read(ends[0], said + length, sizeof said - 1 - length)) > 0)
		length += (size_t)n;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	if (!strstr(said, "overflow") || !strstr(said, "dumped_overflows"))
		fprintf(stderr, "%s\n", said);
	CHECK(strstr(said, "overflow") && strstr(said, "dumped_overflows"));
}

int main(void)
{
	alarm(120);
	CHECK(sn_run(first, NULL) == 0);
	overflows();
	return 0;
}
