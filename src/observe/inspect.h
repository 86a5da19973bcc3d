/* SPDX-License-Identifier: MIT */
/*
 * Descriptions of tasks, for readers that have no right to them.
 *
 * Contract. A reader may look at a block at any time: while its task runs, while it ends, and while
 * another task begins there. It gets a consistent description of one task, or none. It writes
 * nothing and takes no lock.
 */
#ifndef SENNIT_OBSERVE_INSPECT_H
#define SENNIT_OBSERVE_INSPECT_H

#include <stdbool.h>

#include <sennit/scan.h>

struct sn_task;

/* Describes the task in a block, as sn_tasks_each() reports it. Returns false if there is no task,
 * or if it has just ended or begun. */
bool sn_task_describe(struct sn_task *task, struct sn_task_info *info);

#endif
