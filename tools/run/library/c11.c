/* SPDX-License-Identifier: MIT */
/* The threads of C11 are those of POSIX, with other types and errors. */
#include <errno.h>

#include "adopted.h"

static int result_of(int err)
{
	return err == 0 ? thrd_success : err == ENOMEM ? thrd_nomem : thrd_error;
}

SN_RUN_EXPORT int thrd_create(thrd_t *thread, thrd_start_t start, void *arg)
{
	if (!sn_world_adopts())
		return sn_run_real()->thrd_create(thread, start, arg);
	return result_of(sn_adopted_create(thread, NULL, NULL, start, arg));
}

SN_RUN_EXPORT int thrd_join(thrd_t handle, int *result)
{
	void *value;
	int err;

	if (!sn_adopted_of(handle))
		return sn_run_real()->thrd_join(handle, result);
	err = pthread_join(handle, &value);
	if (!err && result)
		*result = (int)(intptr_t)value;
	return result_of(err);
}

SN_RUN_EXPORT int thrd_detach(thrd_t handle)
{
	return result_of(pthread_detach(handle));
}

SN_RUN_EXPORT thrd_t thrd_current(void)
{
	return pthread_self();
}

SN_RUN_EXPORT _Noreturn void thrd_exit(int result)
{
	pthread_exit((void *)(intptr_t)result);
}
