/* SPDX-License-Identifier: MIT */
/*
 * The runtime's settings that sennit-run makes.
 *
 * Contract. They are never in the environment, which the program's children inherit: the runtime
 * has them in a table (sn_private_settings()). They are made before main() begins, because the
 * program may change its environment at any time, and the runtime begins with the first thread.
 * Only --processors overrides what the user has set, which the program may unset, too, and which is
 * therefore kept. The others are for variables that are not set then, or empty:
 *
 *   SENNIT_DUMP_SIGNAL=0  the program's signals are its own
 *   SENNIT_MAX_THREADS    a thread for each task that there can be, and for each processor: at a
 *                         lower limit all threads could wait for a task that has none
 *
 * Without the launcher, when a user preloads the libraries, there are no such settings.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adopted.h"

#define SETTINGS 3
#define MOST_PROCESSORS 1024 /* that the runtime may have */

/* The user's setting, or what sennit-run sets otherwise. */
static struct sn_private_setting setting(const char *name, const char *otherwise)
{
	const char *value = getenv(name);

	/* Without memory for a copy it is the runtime's default. */
	return (struct sn_private_setting){name, value && *value ? strdup(value) : otherwise};
}

void sn_run_make_settings(void)
{
	static struct sn_private_setting made[SETTINGS + 1];
	static char processors[16], threads[16];
	size_t n = 0;

	if (!sn_run_options.launched)
		return;
	if (sn_run_options.processors > 0) {
		snprintf(processors, sizeof processors, "%d", sn_run_options.processors);
		made[n++] = (struct sn_private_setting){"SENNIT_PROCS", processors};
	}
	snprintf(threads, sizeof threads, "%d", SN_ADOPTED_MOST + MOST_PROCESSORS);
	made[n++] = setting("SENNIT_MAX_THREADS", threads);
	made[n++] = setting("SENNIT_DUMP_SIGNAL", "0");
	made[n] = (struct sn_private_setting){NULL, NULL};
	sn_private_settings(made);
}
