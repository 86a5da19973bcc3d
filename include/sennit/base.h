/* SPDX-License-Identifier: MIT */
/*
 * What every sennit header needs: visibility, linkage and the version.
 *
 * These conventions hold for every call of the library, so that each header need not repeat them:
 *
 *  - A fallible call returns a non-negative result, or a negative errno value such as -ENOMEM.
 *    Nothing reports through errno, but <errno.h> comes with every header: errno.h says how.
 *  - The first parameter is the object that a call works on, or the one that it makes. Attributes
 *    and options come last, and a deadline after them.
 *  - Times are int64_t nanoseconds. A *deadline* is a point on sn_now()'s clock (monotonic);
 *    SN_NO_DEADLINE, which is 0, means "never". A deadline is the last parameter of a call that
 *    waits; if the same call exists without one, the name of the form with a deadline ends in
 *    _until. Objects with a descriptor (streams, connections, UDP sockets, listeners) and scopes
 *    store their deadlines instead, so that another task can move one while a call waits.
 *  - sn_x_try_y() does not wait. sn_x_y_with_z() is sn_x_y() with z. A getter is a noun; the setter
 *    is sn_x_set_noun(). sn_x_stats() fills a struct sn_x_stats. sn_x_free() and sn_x_unref() give
 *    no result; what can still fail is another call, such as sn_writer_flush().
 *  - A call that moves all of its bytes or fails, such as sn_stream_write_all(), stores in *done
 *    how many it has moved, and a repeated call continues there.
 *  - Flags are macros for the bits of a uint32_t. Alternatives are an enum.
 *  - SN_CHECK_RESULT marks the calls whose result must not be ignored: those that hand out
 *    something that the caller has to give back, and those that return how much they have moved.
 *  - Structures of attributes, options and statistics begin with their size, which an initialiser
 *    sets: struct sn_task_attr attr = SN_TASK_ATTR_INIT(.name = "session"). Later versions append
 *    fields, and a field that is not given has its default, so a program that was compiled with an
 *    older header keeps working. A size of 0, which was not set, is -EINVAL. -E2BIG: the program
 *    sets a field that this library does not know.
 *  - "May park" means that the call can put the calling task to sleep and let others run. After a
 *    park the task may continue on another thread of the runtime. A call that may park returns
 *    -ENOTSUP when the caller is not a task, and does nothing, unless its header says "any thread".
 *  - When the first task returns, sn_run() abandons the tasks that still wait, and frees their
 *    stacks. The objects they wait in (a scope, a channel, a lock) must not be used any more,
 *    except as channel.h and timer.h say. That holds for the program's own threads, too, and
 *    already while sn_run() is about to return: the first task must not return before such threads
 *    have made their last call with such an object, or nothing waits in it any more.
 *  - "Any thread" means that threads unknown to the runtime may call it too.
 *  - Signal handlers may call only what the header names at the end of its introduction: most calls
 *    take locks, which the interrupted code may hold. A task that a signal should wake waits in
 *    sn_signal_wait() (signal.h), or reads a stream of a pipe or an eventfd, to which a handler may
 *    write(). Deadlocks are not reported in programs with signal handlers of their own (debug.h).
 *  - NULL in place of an object, a function or the address of a result gives -EINVAL. Calls that
 *    give an object back (sn_chan_unref(), sn_tcp_close() and the like, sn_detach(),
 *    sn_scope_close()) do nothing with NULL and return 0, as free() does.
 *  - A stale handle never reaches the object that has taken its place. It gives -ESRCH for a task
 *    that was joined, or detached and has ended, and for a scope or program that was closed; -EBADF
 *    for a connection, listener or stream that was closed. It could match again only after millions
 *    of reuses of the same block; in a 32-bit process, after 63. channel.h says what is detected
 *    for channels.
 *  - Names that begin with sn_private_ or SN_PRIVATE_ are not for programs.
 *  - Checks for programming errors that cost something are made only in builds of the library with
 *    SENNIT_DEBUG. They end the program with a line that names the call and the task.
 *
 * Threads outside the runtime: all calls. Signal handlers: all calls.
 */
#ifndef SENNIT_BASE_H
#define SENNIT_BASE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <sennit/errno.h>

/* SN_BEGIN and SN_END enclose the declarations of a header, which have C linkage in C++. There,
 * GCC's -Wshadow would warn about a function and a structure of the same name, such as
 * sn_run_stats. */
#if defined(__cplusplus) && defined(__GNUC__) && !defined(__clang__)
#	define SN_BEGIN                                                          \
		_Pragma("GCC diagnostic push")                                    \
			_Pragma("GCC diagnostic ignored \"-Wshadow\"") extern "C" \
		{
#	define SN_END \
		}      \
		_Pragma("GCC diagnostic pop")
#elif defined(__cplusplus)
#	define SN_BEGIN extern "C" {
#	define SN_END }
#else
#	define SN_BEGIN
#	define SN_END
#endif

/* A declaration that the shared library exports. */
#define SN_API __attribute__((visibility("default")))
/* Has compilers check a function that takes a format of printf(3). text: the number of the format
 * parameter; first: that of the first argument that it formats, 0 for a va_list. Parameters count
 * from 1, those of member functions from 2. */
#define SN_PRINTF(text, first) __attribute__((format(printf, text, first)))
/* A result that must not be ignored: compilers warn. */
#define SN_CHECK_RESULT __attribute__((warn_unused_result))

/* The version of these headers. */
#define SN_VERSION_MAJOR 0
#define SN_VERSION_MINOR 1
#define SN_VERSION_PATCH 0

/* The version as one number that can be compared: 10203 is 1.2.3. */
#define SN_VERSION_NUMBER (SN_VERSION_MAJOR * 10000 + SN_VERSION_MINOR * 100 + SN_VERSION_PATCH)
/* For #if: whether these headers have at least this version. The library that is linked may be a
 * later version of the same interface (docs/stability.md); sn_version() returns which. */
#define SN_VERSION_CHECK(major, minor) (SN_VERSION_NUMBER >= (major)*10000 + (minor)*100)

/*
 * The first member of a structure that grows, and the initialiser of such a structure: attributes,
 * options and statistics. In C++ every initialisation sets the size, also {}.
 */
#ifdef __cplusplus
#	define SN_SIZE_OF(type) = sizeof(type)
#	define SN_SIZED_INIT(type, ...) \
		{                        \
			__VA_ARGS__      \
		}
#else
#	define SN_SIZE_OF(type)
#	define SN_SIZED_INIT(type, ...)                  \
		{                                         \
			.size = sizeof(type), __VA_ARGS__ \
		}
#endif

/* In place of a deadline: never. */
#define SN_NO_DEADLINE ((int64_t)0)

/*
 * The waiters of a lock or a similar object: a list whose nodes lie on the waiters' stacks. Not for
 * programs; it is public because locks are values that programs embed. All zeros is the empty list.
 */
struct sn_private_waits {
	void *first; /* not for programs */
	void *last;  /* not for programs */
};

SN_BEGIN

/* The version of the library that the program runs with, as "major.minor.patch". Any thread; never
 * fails. */
SN_API const char *sn_version(void);

SN_END

#endif
