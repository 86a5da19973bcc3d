/* SPDX-License-Identifier: MIT */
#ifndef SENNIT_SCHED_SCAN_H
#define SENNIT_SCHED_SCAN_H

#include <sennit/scan.h>

#include "sched/task.h"

/* What sn_tasks_each() tells of the task in a stack. False: there is none, or it has just gone or come. */
bool sn_task_describe(struct sn_task *task, struct sn_stack stack, struct sn_task_info *info);

#endif
