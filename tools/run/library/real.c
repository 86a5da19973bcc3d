/* SPDX-License-Identifier: MIT */
#include "real.h"

#include <dlfcn.h>
#include <stdatomic.h>

static struct sn_run_real table;
/* Release and acquire, because a thread that was not created by this process's main thread may be
 * the first one to see it. */
static _Atomic bool ready;

static void look_up(void)
{
#define LOOK_UP(name) *(void **)&table.name = dlsym(RTLD_NEXT, #name);
	SN_RUN_REAL(LOOK_UP)
	atomic_store_explicit(&ready, true, memory_order_release);
}

const struct sn_run_real *sn_run_real(void)
{
	if (!atomic_load_explicit(&ready, memory_order_acquire))
		look_up();
	return &table;
}
