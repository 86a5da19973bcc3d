/* SPDX-License-Identifier: MIT */
/*
 * setfsuid(), setfsgid(), unshare() and setns(): they change the rights of the calling thread, or
 * what it sees of the system, which other tasks must not get.
 *
 * Contract. As for threads: only the calling task has what it changes, and threads that it then
 * creates inherit it. For that the task keeps its thread for itself, until both identities are what
 * they were before it changed the first, or until it ends. The thread then ends with it, and
 * runs no other task. After unshare() or setns() the task stays so, because what the thread had
 * before is not known to be back. If it cannot have its thread for itself, the process ends: a
 * caller of setfsuid() need not notice that it has failed, and would go on with too many rights.
 *
 * Not covered: system calls that a program makes by syscall(), such as SYS_setfsuid, SYS_setresuid,
 * SYS_setgroups and SYS_capset; and what else the kernel keeps for each thread. program.c refuses
 * programs that call these functions, because a server with the first of them probably needs
 * SYS_setgroups, too; libraries and --force reach them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "adopted.h"

/* Asks only: no user and no group has that number. */
#define NONE ((uid_t)-1)

static void keep_thread(const char *call)
{
	if (sn_pin() == 0)
		return;
	dprintf(STDERR_FILENO,
		"sennit-run: %s(): the task cannot have its thread for itself, and others would "
		"get "
		"its rights\n",
		call);
	abort();
}

bool sn_adopted_is_apart(void)
{
	const struct sn_adopted *thread = sn_adopted_self();

	return thread && (thread->has_identity || thread->has_view);
}

static void before_change(struct sn_adopted *thread, const char *call)
{
	if (thread->has_identity)
		return;
	keep_thread(call);
	thread->has_identity = true;
	thread->uid = (uid_t)sn_run_real()->setfsuid(NONE);
	thread->gid = (gid_t)sn_run_real()->setfsgid(NONE);
}

static void after_change(struct sn_adopted *thread)
{
	if ((uid_t)sn_run_real()->setfsuid(NONE) != thread->uid ||
	    (gid_t)sn_run_real()->setfsgid(NONE) != thread->gid)
		return;
	thread->has_identity = false;
	sn_unpin();
}

SN_RUN_EXPORT int setfsuid(uid_t uid)
{
	struct sn_adopted *thread = sn_adopted_self();
	int former;

	if (!thread || uid == NONE)
		return sn_run_real()->setfsuid(uid);
	before_change(thread, "setfsuid");
	former = sn_run_real()->setfsuid(uid);
	after_change(thread);
	return former;
}

SN_RUN_EXPORT int setfsgid(gid_t gid)
{
	struct sn_adopted *thread = sn_adopted_self();
	int former;

	if (!thread || gid == NONE)
		return sn_run_real()->setfsgid(gid);
	before_change(thread, "setfsgid");
	former = sn_run_real()->setfsgid(gid);
	after_change(thread);
	return former;
}

/* Returns the result. */
static int after_view(struct sn_adopted *thread, int result)
{
	const bool had = thread->has_view;
	const int err = errno;

	thread->has_view |= result == 0;
	if (result != 0 || had)
		sn_unpin();
	errno = err;
	return result;
}

SN_RUN_EXPORT int unshare(int flags)
{
	struct sn_adopted *thread = sn_adopted_self();

	if (!thread)
		return sn_run_real()->unshare(flags);
	keep_thread("unshare");
	return after_view(thread, sn_run_real()->unshare(flags));
}

SN_RUN_EXPORT int setns(int fd, int type)
{
	struct sn_adopted *thread = sn_adopted_self();

	if (!thread)
		return sn_run_real()->setns(fd, type);
	keep_thread("setns");
	return after_view(thread, sn_run_real()->setns(fd, type));
}
