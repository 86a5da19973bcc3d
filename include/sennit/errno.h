/* SPDX-License-Identifier: MIT */
/*
 * errno that stays right when a task changes threads.
 *
 * Each thread has an errno of its own, and the C library declares the function that finds it to be
 * constant. A compiler therefore calls it once in a function and keeps the address, even over a
 * call that parks, after which the task may be on another thread: the function then looks at the
 * errno of the thread that it has left. "Try, look at errno, wait, try again" is the commonest form
 * of code for non-blocking descriptors, and this happens to it at every optimization level but the
 * lowest.
 *
 * This header defines errno by a function of which the compiler assumes nothing. Every header of
 * sennit includes it, so code that is compiled with any of them has it, whether <errno.h> is
 * included before or after. It costs what errno costs. Code that was compiled without this header
 * keeps the C library's definition. Where that is a library whose blocking calls are hooked, the
 * task continues on the same thread, so the address stays right (hooks.h).
 *
 * Another definition of errno that a program makes afterwards is left alone. To keep the C
 * library's, define SN_PLAIN_ERRNO before the first header of sennit.
 *
 * Threads outside the runtime: all. Signal handlers: all.
 */
#ifndef SENNIT_ERRNO_H
#define SENNIT_ERRNO_H

#include <errno.h>

#ifndef SN_PLAIN_ERRNO

/* The address of the calling thread's errno, as of now. It is static in each file and not in a
 * library, so that those parts of sennit that are used alone have it, too. */
__attribute__((noinline, unused)) static int *sn_private_errno(void)
{
	/* Keeps a compiler that looks inside from treating the function as pure or constant. */
	__asm__ volatile("" : : : "memory");
	return &errno;
}

#	undef errno
/* The error of the last call of the C library in this thread, as of now. It may be assigned to. */
#	define errno (*sn_private_errno())
#endif

#endif
