/* SPDX-License-Identifier: MIT */
/*
 * What the profiles of <sennit/profile.h> have in common: profile_tasks.c, profile_cpu.c and
 * profile_waits.c.
 *
 * Contract. A profile is a table of samples and what is mapped, in a mapping of its own. It keeps
 * what is mapped: libraries are held by dlopen() for its time, because a thread that walks a stack
 * reads their tables, in a signal handler too. What is loaded meanwhile, or cannot be held, is not
 * known, and a stack ends there.
 *
 * There is one profile of each kind at a time. It belongs to the thread that makes it, except for
 * the table.
 *
 * Beginning and ending one sleeps, writes and counts the caller in (foreign.h), and if a task did
 * not come back from that, what it has begun would stay forever. So meanwhile the caller is hidden
 * (scan_serve.h): a task blocks its thread there, and does not park in a call that is hooked.
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

/* For a public call: what it returns at once if not 0. */
int sn_profile_check(int64_t duration_ns);

/* Sleeps for so long, as a task if the caller is one. 0, or the reason. */
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

/* The child goes on without: its memory stays, unused. */
void sn_tasks_profile_fork(enum sn_fork_phase phase);
void sn_cpu_profile_fork(enum sn_fork_phase phase);
void sn_waits_profile_fork(enum sn_fork_phase phase);

#endif
