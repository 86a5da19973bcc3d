/* SPDX-License-Identifier: MIT */
/*
 * Counts the locks of the C library (of pthreads, of C11, of files) that each thread holds for a
 * debug build of sennit, so that it can report a task that parks while holding one: see
 * include/sennit/debug.h.
 *
 *	LD_PRELOAD=.../libsennit-lock-check.so program
 *
 * It sees only calls that go through the dynamic linker. These are all calls except those inside
 * the C library, which never parks. pthread_cond_wait() and cnd_wait() return with their mutex
 * locked, so they change no count. A function of pthread_once() or call_once() counts as a lock.
 * sn_debug_foreign_locks() must be visible to the dynamic linker: in a program with the shared
 * library it is, in one with the static library it is if the program is linked with -rdynamic.
 *
 * The locks behave as the C library defines them, because each function calls the C library's own.
 * The addresses of its functions are looked up on first use; threads that do this at the same time
 * find the same addresses.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <threads.h>
#include <time.h>

static void count(int by)
{
	static void (*hook)(int by);

	if (!__atomic_load_n(&hook, __ATOMIC_RELAXED)) {
		void *found = dlsym(RTLD_DEFAULT, "sn_debug_foreign_locks");

		if (!found)
			return;
		__atomic_store_n(&hook, (void (*)(int))found, __ATOMIC_RELAXED);
	}
	hook(by);
}

#define REAL(name, ...)                                \
	static int (*real)(__VA_ARGS__);               \
	if (!__atomic_load_n(&real, __ATOMIC_RELAXED)) \
	__atomic_store_n(&real, (int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED)

#define VISIBLE __attribute__((visibility("default")))

/* EOWNERDEAD locks the mutex too, but robust mutexes are too rare to be supported here. */
#define LOCKS(name, type)             \
	VISIBLE int name(type *lock)  \
	{                             \
		REAL(name, type *);   \
		int err = real(lock); \
                                      \
		if (err == 0)         \
			count(1);     \
		return err;           \
	}
#define LOCKS_UNTIL(name, type)                                    \
	VISIBLE int name(type *lock, const struct timespec *until) \
	{                                                          \
		REAL(name, type *, const struct timespec *);       \
		int err = real(lock, until);                       \
                                                                   \
		if (err == 0)                                      \
			count(1);                                  \
		return err;                                        \
	}
#define UNLOCKS(name, type)           \
	VISIBLE int name(type *lock)  \
	{                             \
		REAL(name, type *);   \
		int err = real(lock); \
                                      \
		if (err == 0)         \
			count(-1);    \
		return err;           \
	}

#define LOCKS_UNTIL_ON(name, type)                                                  \
	VISIBLE int name(type *lock, clockid_t clock, const struct timespec *until) \
	{                                                                           \
		REAL(name, type *, clockid_t, const struct timespec *);             \
		int err = real(lock, clock, until);                                 \
                                                                                    \
		if (err == 0)                                                       \
			count(1);                                                   \
		return err;                                                         \
	}

LOCKS(pthread_mutex_lock, pthread_mutex_t)
LOCKS(pthread_mutex_trylock, pthread_mutex_t)
LOCKS_UNTIL(pthread_mutex_timedlock, pthread_mutex_t)
LOCKS_UNTIL_ON(pthread_mutex_clocklock, pthread_mutex_t)
UNLOCKS(pthread_mutex_unlock, pthread_mutex_t)
LOCKS(pthread_rwlock_rdlock, pthread_rwlock_t)
LOCKS(pthread_rwlock_tryrdlock, pthread_rwlock_t)
LOCKS_UNTIL(pthread_rwlock_timedrdlock, pthread_rwlock_t)
LOCKS(pthread_rwlock_wrlock, pthread_rwlock_t)
LOCKS(pthread_rwlock_trywrlock, pthread_rwlock_t)
LOCKS_UNTIL(pthread_rwlock_timedwrlock, pthread_rwlock_t)
LOCKS_UNTIL_ON(pthread_rwlock_clockrdlock, pthread_rwlock_t)
LOCKS_UNTIL_ON(pthread_rwlock_clockwrlock, pthread_rwlock_t)
UNLOCKS(pthread_rwlock_unlock, pthread_rwlock_t)

#define SPIN_LOCKS(name, by)                       \
	VISIBLE int name(pthread_spinlock_t *lock) \
	{                                          \
		REAL(name, pthread_spinlock_t *);  \
		int err = real(lock);              \
                                                   \
		if (err == 0)                      \
			count(by);                 \
		return err;                        \
	}

SPIN_LOCKS(pthread_spin_lock, 1)
SPIN_LOCKS(pthread_spin_trylock, 1)
SPIN_LOCKS(pthread_spin_unlock, -1)

/* thrd_success is 0. */
LOCKS(mtx_lock, mtx_t)
LOCKS(mtx_trylock, mtx_t)
LOCKS_UNTIL(mtx_timedlock, mtx_t)
UNLOCKS(mtx_unlock, mtx_t)

LOCKS(ftrylockfile, FILE)

#define REAL_VOID(name, ...)                           \
	static void (*real)(__VA_ARGS__);              \
	if (!__atomic_load_n(&real, __ATOMIC_RELAXED)) \
	__atomic_store_n(&real, (void (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED)

#define FILE_LOCKS(name, by)             \
	VISIBLE void name(FILE *file)    \
	{                                \
		REAL_VOID(name, FILE *); \
                                         \
		real(file);              \
		count(by);               \
	}

FILE_LOCKS(flockfile, 1)
FILE_LOCKS(funlockfile, -1)

/* Other threads wait until the function has returned, so it counts as a lock. It may throw,
 * hence a cleanup handler. */
static void leave_once(const int *entered)
{
	count(-*entered);
}

VISIBLE int pthread_once(pthread_once_t *once, void (*fn)(void))
{
	REAL(pthread_once, pthread_once_t *, void (*)(void));
	__attribute__((cleanup(leave_once))) int entered = 1;

	count(entered);
	return real(once, fn);
}

VISIBLE void call_once(once_flag *once, void (*fn)(void))
{
	REAL_VOID(call_once, once_flag *, void (*)(void));
	__attribute__((cleanup(leave_once))) int entered = 1;

	count(entered);
	real(once, fn);
}
