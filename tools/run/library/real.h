/* SPDX-License-Identifier: MIT */
/*
 * The functions that this library replaces, as the C library (or a library between) has them.
 *
 * Contract. sn_run_real() may be called at any time, also by constructors that run before those of
 * this library. The first caller looks the functions up; at that time the process has one thread.
 */
#ifndef SENNIT_RUN_LIBRARY_REAL_H
#define SENNIT_RUN_LIBRARY_REAL_H

#ifndef _GNU_SOURCE
#	define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/fsuid.h>
#include <sys/types.h>
#include <threads.h>
#include <time.h>

/* For functions that the program calls. */
#define SN_RUN_EXPORT __attribute__((visibility("default")))

typedef int sn_run_main_fn(int argc, char **argv, char **envp);

/* Called by the C library's code in the program. */
int __libc_start_main(sn_run_main_fn *main, int argc, char **argv, void (*init)(void),
		      void (*fini)(void), void (*loader_fini)(void), void *stack_end);

/* To which the C library's pthread_atfork() leads, which is linked into its caller. */
typedef void sn_run_fork_fn(void);
int __register_atfork(sn_run_fork_fn *prepare, sn_run_fork_fn *parent, sn_run_fork_fn *child,
		      void *dso);

#define SN_RUN_REAL(X)                         \
	X(__libc_start_main)                   \
	X(__register_atfork)                   \
	X(pthread_self)                        \
	X(pthread_create)                      \
	X(pthread_join)                        \
	X(pthread_tryjoin_np)                  \
	X(pthread_timedjoin_np)                \
	X(pthread_clockjoin_np)                \
	X(pthread_detach)                      \
	X(pthread_exit)                        \
	X(pthread_kill)                        \
	X(pthread_sigqueue)                    \
	X(pthread_cancel)                      \
	X(pthread_getcpuclockid)               \
	X(pthread_setname_np)                  \
	X(pthread_getname_np)                  \
	X(pthread_getattr_np)                  \
	X(pthread_getschedparam)               \
	X(pthread_setschedparam)               \
	X(pthread_setschedprio)                \
	X(pthread_getaffinity_np)              \
	X(pthread_setaffinity_np)              \
	X(pthread_key_create)                  \
	X(pthread_key_delete)                  \
	X(pthread_getspecific)                 \
	X(pthread_setspecific)                 \
	X(pthread_cond_wait)                   \
	X(pthread_cond_timedwait)              \
	X(pthread_cond_clockwait)              \
	X(pthread_cond_signal)                 \
	X(pthread_cond_broadcast)              \
	X(sem_wait)                            \
	X(sem_trywait)                         \
	X(sem_timedwait)                       \
	X(sem_clockwait)                       \
	X(sem_post)                            \
	X(setfsuid)                            \
	X(setfsgid)                            \
	X(unshare)                             \
	X(setns)                               \
	X(thrd_create)                         \
	X(thrd_join)                           \
	X(thrd_detach)                         \
	X(__pthread_register_cancel)           \
	X(__pthread_unregister_cancel)         \
	X(__pthread_register_cancel_defer)     \
	X(__pthread_unregister_cancel_restore) \
	X(__pthread_unwind_next)

struct sn_run_real {
#define SN_RUN_FIELD(name) __typeof__(name) *name;
	SN_RUN_REAL(SN_RUN_FIELD)
};

const struct sn_run_real *sn_run_real(void);

#endif
