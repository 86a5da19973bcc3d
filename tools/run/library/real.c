/* SPDX-License-Identifier: MIT */
#include "real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

static struct sn_run_real table;
/* Release and acquire, because a thread that was not created by this process's main thread may be
 * the first one to see it. */
static _Atomic bool ready;

#if defined(__x86_64__) || defined(__i386__)
/* Before glibc 2.36 dlsym() finds the oldest version of a name after this library, while programs
 * use the newest. For functions whose versions behave differently, the table has the version that
 * today's programs use. */
static const struct {
	const char *name, *version;
} versions[] = {
	/* Condition variables were pointers before. */
	{"pthread_cond_wait", "GLIBC_2.3.2"},
	{"pthread_cond_timedwait", "GLIBC_2.3.2"},
	{"pthread_cond_signal", "GLIBC_2.3.2"},
	{"pthread_cond_broadcast", "GLIBC_2.3.2"},
	/* The functions had no sizes before. */
	{"pthread_getaffinity_np", "GLIBC_2.3.4"},
	{"pthread_setaffinity_np", "GLIBC_2.3.4"},
#	if defined(__i386__)
	/* The attributes had no size of the stack before. */
	{"pthread_create", "GLIBC_2.1"},
	/* Semaphores had a lock and a queue before. */
	{"sem_wait", "GLIBC_2.1"},
	{"sem_trywait", "GLIBC_2.1"},
	{"sem_post", "GLIBC_2.1"},
#	endif
};
#endif

/* Other architectures are younger, and have one version of each. */
static void *find(const char *name)
{
	void *found = NULL;

#if defined(__x86_64__) || defined(__i386__)
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
		if (strcmp(name, versions[i].name) == 0)
			found = dlvsym(RTLD_NEXT, name, versions[i].version);
#endif
	return found ? found : dlsym(RTLD_NEXT, name);
}

static void look_up(void)
{
#define LOOK_UP(name) *(void **)&table.name = find(#name);
	SN_RUN_REAL(LOOK_UP)
	atomic_store_explicit(&ready, true, memory_order_release);
}

const struct sn_run_real *sn_run_real(void)
{
	if (!atomic_load_explicit(&ready, memory_order_acquire))
		look_up();
	return &table;
}
