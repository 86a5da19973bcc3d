/* SPDX-License-Identifier: MIT */
#include "wait/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <sennit/clock.h>

#include "arch/compiler.h"
#include "wait/checked.h"

/*
 * Waits use FUTEX_WAIT_BITSET rather than FUTEX_WAIT, because it takes an absolute time: a wait
 * that is interrupted and repeated does not get longer. On 32-bit machines the system call with
 * 64-bit time is tried first. Kernels before 5.1 have only the one with 32-bit time. That suffices,
 * because the deadline counts from boot.
 */
static long futex(_Atomic uint32_t *word, int op, uint32_t value, int64_t deadline)
{
#ifdef SYS_futex_time64
	struct {
		int64_t sec, nsec;
	} wide = {deadline / 1000000000, deadline % 1000000000};
	long n = syscall(SYS_futex_time64, word, op, value, deadline ? &wide : NULL, NULL,
			 FUTEX_BITSET_MATCH_ANY);
	if (n >= 0 || errno != ENOSYS)
		return n;
#endif
	struct {
		long sec, nsec;
	} narrow = {(long)(deadline / 1000000000), (long)(deadline % 1000000000)};
	return syscall(SYS_futex, word, op, value, deadline ? &narrow : NULL, NULL,
		       FUTEX_BITSET_MATCH_ANY);
}

bool sn_futex_is_wide(void)
{
#ifdef SYS_futex_time64
	_Atomic uint32_t word = 0;
	const int saved = errno;
	const bool wide = syscall(SYS_futex_time64, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 0, NULL,
				  NULL, 0) >= 0 ||
			  errno != ENOSYS;

	errno = saved;
	return wide;
#else
	return false;
#endif
}

#if SN_TSAN
/*
 * TSan defers signal handlers to the next libc call that it intercepts, and syscall() is not one of
 * them. While its thread sleeps here the handler would not run, perhaps never. Each sleep therefore
 * has a deadline, at most SLEEP_NS away, and an intercepted call follows it. Any handler interrupts
 * a sleep with a deadline, TSan's own, too. A signal that comes just before the sleep is handled
 * when it ends.
 */
#	define SLEEP_NS 1000000000

static int futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline)
{
	const int64_t end = sn_now() + SLEEP_NS;
	bool whole = deadline && deadline <= end;
	int err = 0;

	if (futex(word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, whole ? deadline : end))
		err = errno;
	usleep(0); /* runs the deferred handlers */
	return whole && err == ETIMEDOUT ? -ETIMEDOUT : 0;
}
#else
static int futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline)
{
	return futex(word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, deadline) < 0 &&
			       errno == ETIMEDOUT
		       ? -ETIMEDOUT
		       : 0;
}
#endif

int sn_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline)
{
	int saved = errno, result;

	sn_checked_wait("a futex");
	result = futex_wait(word, expected, deadline);
	errno = saved;
	return result;
}

void sn_futex_wake(_Atomic uint32_t *word, int count)
{
	int saved = errno;

	sn_checked_pass(); /* FUTEX_WAKE does not wait */
	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
	sn_checked_pass_end();
	errno = saved;
}

int sn_parker_wait(struct sn_parker *parker, int64_t deadline)
{
	uint32_t seen = 0;

	if (!atomic_compare_exchange_strong(&parker->word, &seen, 2)) {
		/*
		 * Not a plain store, because another release may have merged with the one just
		 * seen. The exchange reads the last of them, so that what its thread wrote before
		 * it is visible here. A release that comes later finds 0 and is kept.
		 */
		atomic_exchange(&parker->word, 0);
		return 0;
	}
	for (;;) {
		int err = sn_futex_wait(&parker->word, 2, deadline);

		seen = 1;
		if (atomic_compare_exchange_strong(&parker->word, &seen, 0))
			return 0;
		if (err == -ETIMEDOUT) {
			/* A release may come at this moment: then the word is 1, and the wait has
			 * succeeded. */
			if (atomic_exchange(&parker->word, 0) == 1)
				return 0;
			return err;
		}
	}
}

void sn_parker_release(struct sn_parker *parker)
{
	if (atomic_exchange(&parker->word, 1) == 2)
		sn_futex_wake(&parker->word, 1);
}
