/* SPDX-License-Identifier: MIT */
/*
 * What every sennit header needs: visibility, linkage and the version.
 *
 * Conventions that hold for every call of the library, so that each header need not repeat them:
 *
 *  - A fallible call returns a non-negative result, or a negative errno value such as -ENOMEM.
 *    Nothing reports through errno: a task may be on another thread by the time it looks.
 *  - Times are int64_t nanoseconds. A *deadline* is a point on sn_now()'s clock (monotonic);
 *    SN_NO_DEADLINE, which is 0, means "never".
 *  - "May park" says that the call can put the calling task to sleep and let others run; after a
 *    park the task may go on on another thread of the runtime. A call that may park returns -EPERM
 *    when the caller is not a task, and does nothing.
 *  - What tasks wait in (a scope, a channel, a lock) when sn_run() returns, and abandons them, must
 *    not be used any more.
 *  - "Any thread" says that threads which the runtime does not know may call it too.
 *  - Signal handlers may call only what the header names at the end of its introduction: most calls
 *    take locks, which the interrupted code may hold. A task that is to be woken by a signal waits in
 *    sn_signal_wait() (signal.h), or for a stream of a pipe or an eventfd, to which a handler may
 *    write(). Deadlocks are not reported where the program has handlers of its own (debug.h).
 *  - NULL where an object, a function or a result's place is needed gives -EINVAL, but what gives an
 *    object back (sn_chan_free(), sn_tcp_close() and the like, sn_detach(), sn_scope_close()) does
 *    nothing with NULL, and returns 0, as free() does.
 *  - A handle of what is gone reaches nothing else that has come to its place: of a task that was
 *    joined or detached and has ended, or of a scope that was closed, -ESRCH; of a connection,
 *    listener or stream that was closed, -EBADF. It could fit again once millions more have had the
 *    same place, in a 32-bit process 63. channel.h says what is known of channels.
 *  - Mistakes that cost something to see are looked for in builds of the library with SENNIT_DEBUG,
 *    which end the program with a line that names the call and the task.
 *
 * Threads outside the runtime: all calls. Signal handlers: all calls.
 */
#ifndef SENNIT_BASE_H
#define SENNIT_BASE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What surrounds the declarations of a header, for C++. */
#ifdef __cplusplus
#	define SN_BEGIN extern "C" {
#	define SN_END }
#else
#	define SN_BEGIN
#	define SN_END
#endif

/* What the shared library exports. */
#define SN_API __attribute__((visibility("default")))
/* A result that must not be ignored: compilers warn. */
#define SN_CHECK_RESULT __attribute__((warn_unused_result))

/* The version of these headers. */
#define SN_VERSION_MAJOR 0
#define SN_VERSION_MINOR 1
#define SN_VERSION_PATCH 0

/* In place of a deadline: never. */
#define SN_NO_DEADLINE ((int64_t)0)

/*
 * Those who wait for a lock or the like, in a list whose nodes lie on their stacks. Not for programs;
 * it is here because locks are values that programs place where they like. Zero is empty.
 */
struct sn__waits {
	void *first; /* not for programs */
	void *last;  /* not for programs */
};

SN_BEGIN

/* The version of the library that is linked, as "major.minor.patch". Any thread; never fails. */
SN_API const char *sn_version(void);

SN_END

#endif
