/* SPDX-License-Identifier: MIT */
/*
 * A program for debugger_test.py whose tasks wait in every possible way. Each is named after its
 * function. When all tasks have reached their places, the program calls debugged_all_here(), and
 * then ends by an illegal instruction, so that there are no other frames on the stack.
 */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <sennit/scan.h>
#include <sennit/sennit.h>

#define NOINLINE __attribute__((noinline))

static sn_chan *channel;
static sn_mutex mutex;
static atomic_int entered;
static volatile int deeper = 1;

/* gdb shows an inlined function as a frame of its own. */
static inline __attribute__((always_inline)) void debugged_inlined(void)
{
	__asm__ volatile("nop" ::: "memory");
}

static NOINLINE void debugged_all_here(void)
{
	debugged_inlined();
}

static NOINLINE int debugged_receives(void *arg)
{
	int item, err;

	(void)arg;
	entered++;
	err = sn_chan_recv(channel, &item);
	return err < 0 ? err : item;
}

static NOINLINE int debugged_locks(void *arg)
{
	int err;

	(void)arg;
	entered++;
	err = sn_mutex_lock(&mutex);
	return err < 0 ? err : sn_mutex_unlock(&mutex);
}

static NOINLINE int debugged_sleeps(void *arg)
{
	int err;

	(void)arg;
	entered++;
	err = sn_sleep(INT64_MAX);
	return err < 0 ? err : 1;
}

/* A task that parks at the end of a deep stack. */
static NOINLINE int debugged_recurses(void *arg)
{
	int depth = *(int *)arg - deeper, err;

	err = depth > 0 ? debugged_recurses(&depth) : debugged_sleeps(NULL);
	return err + deeper;
}

static NOINLINE int debugged_blocks(void *arg)
{
	int err;

	(void)arg;
	entered++;
	err = poll(NULL, 0, -1);
	return err + deeper;
}

static NOINLINE int debugged_brackets(void *arg)
{
	int err;

	(void)arg;
	entered++;
	sn_enter_blocking();
	err = poll(NULL, 0, -1);
	sn_exit_blocking();
	return err + deeper;
}

static void spawn(sn_fn *fn, void *arg, const char *name)
{
	struct sn_task_attr attr = SN_TASK_ATTR_INIT(.name = name);
	sn_task *task;

	if (sn_spawn(&task, fn, arg, &attr) < 0)
		exit(1);
}

static int count_parked(const struct sn_task_info *info, void *count)
{
	*(int *)count += info->state == SN_STATE_PARKED;
	return 0;
}

static int first(void *arg)
{
	static int depth = 40;
	int parked;

	(void)arg;
	if (sn_chan_new(&channel, sizeof(int), 0) < 0 || sn_mutex_lock(&mutex) < 0)
		return 1;
	spawn(debugged_receives, NULL, "receives");
	spawn(debugged_locks, NULL, "locks");
	spawn(debugged_sleeps, NULL, "sleeps");
	spawn(debugged_recurses, &depth, "recurses");
	spawn(debugged_blocks, NULL, "blocks");
	spawn(debugged_brackets, NULL, "brackets");
	do {
		parked = 0;
		sn_yield();
		sn_tasks_each(count_parked, &parked);
	} while (entered < 6 || parked < 4);
	spawn(debugged_receives, NULL, "unborn");
	debugged_all_here();
	__builtin_trap();
}

int main(void)
{
	return sn_run(first, NULL) < 0;
}
