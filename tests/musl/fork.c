/* SPDX-License-Identifier: MIT */
/*
 * fork() beside tasks: the child has no runtime, and says so; a run of its own works there, also
 * with names, whose threads the child does not have. The parent's tasks continue.
 */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "check.h"

static int count(void *arg)
{
	for (int i = 0; i < 100; i++) {
		CHECK(sn_sleep(MS / 10) == 0);
		++*(int *)arg;
	}
	return 0;
}

static int in_child(void *arg)
{
	sn_resolved *found;
	sn_task *task;
	int counted = 0;

	(void)arg;
	CHECK(sn_spawn(&task, count, &counted, NULL) == 0);
	CHECK(sn_join(task, NULL) == 0 && counted == 100);
	CHECK(sn_resolve(&found, "localhost", "80", SN_RESOLVE_IPV4, sn_after(30 * SECOND)) == 0);
	sn_resolved_free(found);
	return 7;
}

static void forks(void)
{
	const pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0) {
		alarm(60);
		CHECK(sn_sleep(MS) == -ENOTSUP);
		_exit(sn_run(in_child, NULL));
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static int first(void *arg)
{
	sn_resolved *found;
	sn_task *task;
	int counted = 0;

	(void)arg;
	/* Leaves a thread of the resolver. */
	CHECK(sn_resolve(&found, "localhost", "80", SN_RESOLVE_IPV4, sn_after(30 * SECOND)) == 0);
	sn_resolved_free(found);
	CHECK(sn_spawn(&task, count, &counted, NULL) == 0);
	for (int i = 0; i < 3; i++)
		forks();
	CHECK(sn_join(task, NULL) == 0 && counted == 100);
	return 0;
}

int main(void)
{
	alarm(120);
	return sn_run(first, NULL) != 0;
}
