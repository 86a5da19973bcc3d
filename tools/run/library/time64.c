/* SPDX-License-Identifier: MIT */
/*
 * For programs with 64-bit times on 32-bit machines, for which the C library has functions of other
 * names: those of threads.c, cond.c and sem.c that take a time.
 *
 * Contract. As of their siblings. What a time has beyond the range of this library's is as far away
 * as that can say.
 */
#include "adopted.h"

#if __SIZEOF_LONG__ == 4 && defined(__GLIBC__)

#	include <dlfcn.h>

struct timespec64 {
	int64_t sec;
	int32_t nsec, unused; /* little-endian machines only */
};

static struct timespec convert(const struct timespec64 *time)
{
	const int64_t sec = time->sec > INT32_MAX ? INT32_MAX : time->sec < -1 ? -1 : time->sec;

	return (struct timespec){.tv_sec = (time_t)sec, .tv_nsec = time->nsec};
}

typedef int join_fn(pthread_t, void **, const struct timespec64 *);
typedef int clockjoin_fn(pthread_t, void **, clockid_t, const struct timespec64 *);
typedef int sem_fn(sem_t *, const struct timespec64 *);
typedef int sem_clock_fn(sem_t *, clockid_t, const struct timespec64 *);

int __pthread_timedjoin_np64(pthread_t handle, void **result, const struct timespec64 *until);
int __pthread_clockjoin_np64(pthread_t handle, void **result, clockid_t clock,
			     const struct timespec64 *until);
int __pthread_cond_timedwait64(pthread_cond_t *cond, pthread_mutex_t *mutex,
			       const struct timespec64 *until);
int __pthread_cond_clockwait64(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
			       const struct timespec64 *until);
int __cnd_timedwait64(cnd_t *cond, mtx_t *mutex, const struct timespec64 *until);
int __sem_timedwait64(sem_t *sem, const struct timespec64 *until);
int __sem_clockwait64(sem_t *sem, clockid_t clock, const struct timespec64 *until);

SN_RUN_EXPORT int __pthread_timedjoin_np64(pthread_t handle, void **result,
					   const struct timespec64 *until)
{
	struct timespec time;

	if (!sn_adopted_of(handle))
		return ((join_fn *)dlsym(RTLD_NEXT, "__pthread_timedjoin_np64"))(handle, result,
										 until);
	if (!until)
		return pthread_join(handle, result);
	time = convert(until);
	return pthread_timedjoin_np(handle, result, &time);
}

SN_RUN_EXPORT int __pthread_clockjoin_np64(pthread_t handle, void **result, clockid_t clock,
					   const struct timespec64 *until)
{
	struct timespec time;

	if (!sn_adopted_of(handle))
		return ((clockjoin_fn *)dlsym(RTLD_NEXT, "__pthread_clockjoin_np64"))(
			handle, result, clock, until);
	if (!until)
		return pthread_join(handle, result);
	time = convert(until);
	return pthread_clockjoin_np(handle, result, clock, &time);
}

/* Threads that are not tasks wait in the same variable, so the conversion does for them as well. */
SN_RUN_EXPORT int __pthread_cond_timedwait64(pthread_cond_t *cond, pthread_mutex_t *mutex,
					     const struct timespec64 *until)
{
	const struct timespec time = convert(until);

	return pthread_cond_timedwait(cond, mutex, &time);
}

SN_RUN_EXPORT int __pthread_cond_clockwait64(pthread_cond_t *cond, pthread_mutex_t *mutex,
					     clockid_t clock, const struct timespec64 *until)
{
	const struct timespec time = convert(until);

	return pthread_cond_clockwait(cond, mutex, clock, &time);
}

SN_RUN_EXPORT int __cnd_timedwait64(cnd_t *cond, mtx_t *mutex, const struct timespec64 *until)
{
	const struct timespec time = convert(until);

	return cnd_timedwait(cond, mutex, &time);
}

/* A thread that is no task waits in the C library, which converts nothing. */
SN_RUN_EXPORT int __sem_timedwait64(sem_t *sem, const struct timespec64 *until)
{
	struct timespec time;

	if (!sn_foreign_self())
		return ((sem_fn *)dlsym(RTLD_NEXT, "__sem_timedwait64"))(sem, until);
	time = convert(until);
	return sem_timedwait(sem, &time);
}

SN_RUN_EXPORT int __sem_clockwait64(sem_t *sem, clockid_t clock, const struct timespec64 *until)
{
	struct timespec time;

	if (!sn_foreign_self())
		return ((sem_clock_fn *)dlsym(RTLD_NEXT, "__sem_clockwait64"))(sem, clock, until);
	time = convert(until);
	return sem_clockwait(sem, clock, &time);
}

#endif
