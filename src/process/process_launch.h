/* SPDX-License-Identifier: MIT */
/*
 * What has to be done before a program is started: everything that allocates memory, opens
 * descriptors or reads the environment, because the child can do none of that (process_child.h).
 */
#ifndef SENNIT_PROCESS_PROCESS_LAUNCH_H
#define SENNIT_PROCESS_PROCESS_LAUNCH_H

#include "process/process_child.h"

/* The most descriptors: both ends of three pipes, or of one terminal, and /dev/null. */
#define SN_LAUNCH_DESCRIPTORS 8

struct sn_launch {
	struct sn_child child;
	char **paths;
	const char **environment;
	int ours[3]; /* the parent's ends, by the standard descriptor; equal for a terminal; -1:
		      * none */
	int opened[SN_LAUNCH_DESCRIPTORS]; /* descriptors for the child alone */
	int opened_count;
	int null, terminal; /* two of these; -1: not opened yet */
	int terminal_master;
};

/* Returns 0, or an error, after which there is nothing to free. attr is not NULL. Any thread. */
int sn_launch_prepare(struct sn_launch *launch, const char *const argv[],
		      const struct sn_process_attr *attr);

/* Moves the parent's ends, each once, to an owner of their own; the others become -1. */
void sn_launch_take_ours(struct sn_launch *launch, int ends[3]);

/* Frees everything except the parent's ends, which the caller owns. */
void sn_launch_release(struct sn_launch *launch);

/* Closes the parent's ends, too: for a program that was not started. */
void sn_launch_close(struct sn_launch *launch);

#endif
