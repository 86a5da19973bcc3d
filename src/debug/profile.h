/* SPDX-License-Identifier: MIT */
/*
 * What the profiles of <sennit/profile.h> have in common: profile_tasks.c, profile_cpu.c and
 * profile_waits.c.
 *
 * Contract. A profile has a table of samples and a list of modules, in a mapping of its own. It
 * holds the modules: libraries are opened by dlopen() while the profile runs, because a thread that
 * walks a stack reads their tables, in a signal handler too. Modules that are loaded later, or
 * cannot be held, are unknown, and a stack ends there.
 *
 * There is one profile of each kind at a time. It belongs to the thread that makes it, except for
 * the table.
 *
 * Beginning and ending a profile sleeps, writes and enters the runtime (foreign.h). If a task were
 * abandoned in there, its profile would run forever. Therefore the caller is hidden during these
 * calls (scan_serve.h): a task blocks its thread, and does not park in hooked calls.
 */
#ifndef SENNIT_DEBUG_PROFILE_H
#define SENNIT_DEBUG_PROFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sennit/profile.h>

#include "base/fork.h"
#include "debug/backtrace.h"
#include "debug/modules.h"
#include "debug/pprof.h"
#include "debug/samples.h"

struct sn_profile {
	struct sn_samples samples;
	struct sn_modules modules;
	int64_t began;      /* sn_walltime() */
	int64_t began_mono; /* sn_now() */
	int held;
	void *libraries[SN_MOST_MODULES];
	uintptr_t held_at[SN_MOST_MODULES]; /* an address in each */
	size_t names_used;
	char names[1 << 15];                        /* of libraries, each with its zero */
	struct sn_frame_rule rules[SN_FRAME_RULES]; /* for the thread that makes it */
};

/* A mapping of that size, which begins with a struct sn_profile; NULL: no memory. */
struct sn_profile *sn_profile_begin(size_t size);
void sn_profile_end(struct sn_profile *profile, size_t size);

/*
 * Writes its samples, the first value of each divided by the scale. The time in attr is filled in.
 * comment: NULL or a line. 0 or the error.
 */
int sn_profile_write(struct sn_profile *profile, int fd, struct sn_pprof_attr *attr, int64_t scale,
		     const char *comment);

/* For a public call: an error that it returns immediately, or 0. */
int sn_profile_check(int64_t duration_ns);

/* Sleeps for the duration, as a task if the caller is one. 0, or the reason. */
int sn_profile_sleep(int64_t duration_ns);

/* The parts of sn_profile_cpu() and sn_profile_waits(), for profile_file.c. The second stops, and
 * writes unless fd is negative. Errors as the public calls'. */
int sn_cpu_profile_start(int hz);
int sn_cpu_profile_stop(int fd);
int sn_waits_profile_start(int64_t period_ns);
int sn_waits_profile_stop(int fd);

/* The end of a run, without threads: drops what tasks were making that are abandoned. */
void sn_cpu_profile_end(void);
void sn_waits_profile_end(void);

/* The child has no profile: its memory stays, unused. */
void sn_tasks_profile_fork(enum sn_fork_phase phase);
void sn_cpu_profile_fork(enum sn_fork_phase phase);
void sn_waits_profile_fork(enum sn_fork_phase phase);

#endif
