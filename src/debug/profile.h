/* SPDX-License-Identifier: MIT */
/*
 * The common parts of the profiles of <sennit/profile.h>: profile_tasks.c, profile_cpu.c and
 * profile_waits.c.
 *
 * Contract. A profile has a table of samples and a list of modules, in a mapping of its own. While
 * it runs it keeps the libraries open by dlopen(), because threads that walk stacks read their
 * tables, also in signal handlers. A stack ends at a module that was loaded later, or that could
 * not be kept open.
 *
 * There is one profile of each kind at a time.
 *
 * Beginning and ending a profile sleeps, writes and enters the runtime (foreign.h). If a task were
 * abandoned during that, its profile would run forever. Therefore the caller is hidden during these
 * calls (scan_serve.h): a task blocks its thread, and does not park in hooked calls.
 *
 * Who may write what:
 *   samples    see samples.h
 *   the rest   the thread that makes the profile; other threads read the modules while it runs
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
	int64_t began;      /* when it began, by sn_walltime() */
	int64_t began_mono; /* when it began, by sn_now() */
	int held;           /* how many libraries are kept open */
	void *libraries[SN_MOST_MODULES];
	uintptr_t held_at[SN_MOST_MODULES]; /* an address in each */
	size_t names_used;
	char names[1 << 15];                        /* of libraries, each with its final zero */
	struct sn_frame_rule rules[SN_FRAME_RULES]; /* for the thread that makes the profile */
};

/* Makes a mapping of that size, which begins with a struct sn_profile; returns NULL if there is no
 * memory. */
struct sn_profile *sn_profile_begin(size_t size);
void sn_profile_end(struct sn_profile *profile, size_t size);

/*
 * Writes the samples; the first value of each is divided by the scale. Fills in the time in attr.
 * comment is a line or NULL. Returns 0, or the error of write().
 */
int sn_profile_write(struct sn_profile *profile, int fd, struct sn_pprof_attr *attr, int64_t scale,
		     const char *comment);

/* Checks whether a public call can begin. Returns 0, or the error that the call must return. */
int sn_profile_check(int64_t duration_ns);

/* Sleeps for the duration, as a task if the caller is one. Returns 0, or the error of
 * sn_sleep(). */
int sn_profile_sleep(int64_t duration_ns);

/* The parts of sn_profile_cpu() and sn_profile_waits(), for profile_file.c. A stop writes the
 * profile unless fd is negative. They return the errors of the public calls. */
int sn_cpu_profile_start(int hz);
int sn_cpu_profile_stop(int fd);
int sn_waits_profile_start(int64_t period_ns);
int sn_waits_profile_stop(int fd);

/* Called at the end of a run, when no thread is left: drop the profiles of tasks that were
 * abandoned. */
void sn_cpu_profile_end(void);
void sn_waits_profile_end(void);

/* A child of fork() has no profile; the memory of the parent's stays there, unused. */
void sn_tasks_profile_fork(enum sn_fork_phase phase);
void sn_cpu_profile_fork(enum sn_fork_phase phase);
void sn_waits_profile_fork(enum sn_fork_phase phase);

#endif
