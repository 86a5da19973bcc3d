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
