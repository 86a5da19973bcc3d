/* SPDX-License-Identifier: MIT */
/*
 * What a task is, for readers that have no right to it. They look at its block while the task runs,
 * while it ends, and while another one begins there.
 */
#ifndef SENNIT_OBSERVE_INSPECT_H
#define SENNIT_OBSERVE_INSPECT_H

#include <stdbool.h>

#include <sennit/scan.h>

struct sn_task;

/* What sn_tasks_each() reports of the task in a block. False: there is none, or it has just ended
 * or begun. */
bool sn_task_describe(struct sn_task *task, struct sn_task_info *info);

#endif
