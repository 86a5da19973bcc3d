/* SPDX-License-Identifier: MIT */
/*
 * What a task is, for those who have no right to it: they look at its block while it runs, ends, and
 * another one begins there.
 */
#ifndef SENNIT_SCHED_INSPECT_H
#define SENNIT_SCHED_INSPECT_H

#include <stdbool.h>

#include <sennit/scan.h>

struct sn_task;

/* What sn_tasks_each() tells of the task in a block. False: there is none, or it has just gone or come. */
bool sn_task_describe(struct sn_task *task, struct sn_task_info *info);

#endif
