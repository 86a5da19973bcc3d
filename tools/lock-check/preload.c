/* SPDX-License-Identifier: MIT */
/*
 * Tells a debug build of sennit which pthread locks each thread holds, so that it can report a task that
 * parks with one: see include/sennit/debug.h.
 *
 *	LD_PRELOAD=.../libsennit-lock-check.so program
 *
 * Only what the program calls through the dynamic linker is seen, which is all but what the C library
 * does within itself; that never parks. pthread_cond_wait() leaves its mutex locked as it found it.
 * The program must show sn_debug_foreign_locks() to the dynamic linker: with the shared library it does,
 * with the static one when it is linked with -rdynamic.
 *
 * What the locks do and return is the C library's. The addresses of its functions are found at the
 * first use: a race between two threads finds the same.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

static void tell(int by)
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

/* Also EOWNERDEAD has locked it, but robust mutexes are rare enough to be left out. */
#define LOCKS(name, type)             \
	VISIBLE int name(type *lock)  \
	{                             \
		REAL(name, type *);   \
		int err = real(lock); \
                                      \
		if (err == 0)         \
			tell(1);      \
		return err;           \
	}
#define LOCKS_UNTIL(name, type)                                    \
	VISIBLE int name(type *lock, const struct timespec *until) \
	{                                                          \
		REAL(name, type *, const struct timespec *);       \
		int err = real(lock, until);                       \
                                                                   \
		if (err == 0)                                      \
			tell(1);                                   \
		return err;                                        \
	}
#define UNLOCKS(name, type)           \
	VISIBLE int name(type *lock)  \
	{                             \
		REAL(name, type *);   \
		int err = real(lock); \
                                      \
		if (err == 0)         \
			tell(-1);     \
		return err;           \
	}

LOCKS(pthread_mutex_lock, pthread_mutex_t)
LOCKS(pthread_mutex_trylock, pthread_mutex_t)
LOCKS_UNTIL(pthread_mutex_timedlock, pthread_mutex_t)
UNLOCKS(pthread_mutex_unlock, pthread_mutex_t)
LOCKS(pthread_rwlock_rdlock, pthread_rwlock_t)
LOCKS(pthread_rwlock_tryrdlock, pthread_rwlock_t)
LOCKS_UNTIL(pthread_rwlock_timedrdlock, pthread_rwlock_t)
LOCKS(pthread_rwlock_wrlock, pthread_rwlock_t)
LOCKS(pthread_rwlock_trywrlock, pthread_rwlock_t)
LOCKS_UNTIL(pthread_rwlock_timedwrlock, pthread_rwlock_t)
UNLOCKS(pthread_rwlock_unlock, pthread_rwlock_t)
