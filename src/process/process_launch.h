/* SPDX-License-Identifier: MIT */
/*
 * What a program needs before it is started: everything that allocates memory, opens descriptors or
 * looks at the environment, so that the child has nothing of that left to do (process_child.h).
 */
#ifndef SENNIT_PROCESS_PROCESS_LAUNCH_H
#define SENNIT_PROCESS_PROCESS_LAUNCH_H

#include "process/process_child.h"

/* Our ends of three pipes, or of one terminal; theirs, /dev/null. */
#define SN_LAUNCH_DESCRIPTORS 8

struct sn_launch {
	struct sn_child child;
	char **paths;
	const char **environment;
	int ours[3]; /* by the standard descriptor; equal for a terminal; -1: none */
	int opened[SN_LAUNCH_DESCRIPTORS]; /* those for the child alone */
	int opened_count;
	int null, terminal; /* among them; -1: not yet */
	int terminal_master;
};

/* 0; or an error, after which there is nothing to free. attr is not NULL. Any thread. */
int sn_launch_prepare(struct sn_launch *launch, const char *const argv[],
		      const struct sn_process_attr *attr);

/* Frees everything except for our ends, which are the caller's. */
void sn_launch_release(struct sn_launch *launch);

/* Closes our ends, too: for a program that was not started. */
void sn_launch_close(struct sn_launch *launch);

#endif
