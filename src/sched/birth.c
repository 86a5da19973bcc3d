/* SPDX-License-Identifier: MIT */
#include "sched/birth.h"

#include <stdatomic.h>
#include <stddef.h>

#include "sched/runtime.h"
#include "sched/sysmon_sleep.h"
#include "wait/lock.h"

/* Written under the runtime's lock. */
static struct sn_birth *_Atomic births;

static __thread bool is_monitor __attribute__((tls_model("initial-exec")));

void sn_births_here(void)
{
	is_monitor = true;
}

bool sn_may_start_threads(void)
{
	const struct sn_thread *self = sn_thread_self();

	return self ? !self->task && !self->altered : is_monitor;
}

void sn_birth_ask(struct sn_birth *birth)
{
	sn_lock(&sn_runtime.lock);
	if (!birth->asked) {
		birth->asked = true;
		birth->next = atomic_load(&births);
		atomic_store(&births, birth);
		sn_sysmon_wake();
	}
	sn_unlock(&sn_runtime.lock);
}

bool sn_births_asked(void)
{
	return atomic_load(&births) != NULL;
}

void sn_births_serve(void)
{
	struct sn_birth *birth;

	while (atomic_load(&births)) {
		sn_lock(&sn_runtime.lock);
		birth = atomic_load(&births);
		if (birth) {
			atomic_store(&births, birth->next);
			birth->asked = false;
		}
		sn_unlock(&sn_runtime.lock);
		if (birth)
			birth->begin();
	}
}

void sn_births_forget(void)
{
	for (struct sn_birth *birth = atomic_load(&births); birth; birth = birth->next)
		birth->asked = false;
	atomic_store(&births, NULL);
}
