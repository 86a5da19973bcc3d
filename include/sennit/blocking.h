/* SPDX-License-Identifier: MIT */
/*
 * Calling code that blocks the thread.
 *
 * Any C call may block in any task, without any annotation. The runtime's monitor notices a thread
 * that sleeps in the kernel, or that keeps its processor for 10 ms, and gives the processor to
 * other tasks. The brackets here only make that faster, by about 20 us, and name the call in
 * reports. Neither the brackets nor the monitor ever move a task to another thread: errno,
 * thread-locals and everything else that belongs to the thread stay what they were.
 *
 * Threads outside the runtime: all calls; sn_pin() and sn_unpin() return -ENOTSUP. Signal handlers:
 * none.
 */
#ifndef SENNIT_BLOCKING_H
#define SENNIT_BLOCKING_H

#include <sennit/base.h>
#include <sennit/run.h>

SN_BEGIN

/*
 * The part of a thread's state that the inline functions below touch. Not for programs.
 * src/sched/lease.h says what the fields mean and who may write them.
 */
struct sn_private_lease {
	uint32_t inside;
	uint32_t word;
	uint32_t stays;
	const char *blocking;
};

extern SN_API __thread struct sn_private_lease *sn_private_current
	__attribute__((tls_model("initial-exec")));
SN_API struct sn_private_lease *sn_private_current_slow(void);
SN_API void sn_private_lease_lost(struct sn_private_lease *lease);
SN_API void sn_private_bracket_check(struct sn_private_lease *lease, int entering);

/*
 * The calling thread's lease; NULL on threads unknown to the runtime. It is read by volatile
 * assembly, because compilers cache the address of a thread-local across calls, and a task may be
 * on another thread after a call.
 */
static inline struct sn_private_lease *sn_private_self(void)
{
#if defined(__x86_64__) && defined(__LP64__) && !defined(__SANITIZE_THREAD__)
	struct sn_private_lease *lease;

	__asm__ volatile("movq sn_private_current@gottpoff(%%rip), %0\n\t"
			 "movq %%fs:(%0), %0"
			 : "=r"(lease)
			 :
			 : "memory");
	return lease;
#elif defined(__aarch64__) && defined(__LP64__) && !defined(__SANITIZE_THREAD__)
	struct sn_private_lease *lease;
	uintptr_t offset;

	/* Initial-exec as the ABI spells it; linkers turn it into local-exec in programs. */
	__asm__ volatile("adrp %1, :gottprel:sn_private_current\n\t"
			 "mrs %0, tpidr_el0\n\t"
			 "ldr %1, [%1, #:gottprel_lo12:sn_private_current]\n\t"
			 "ldr %0, [%0, %1]"
			 : "=&r"(lease), "=&r"(offset)
			 :
			 : "memory");
	return lease;
#elif defined(__riscv) && defined(__LP64__) && !defined(__SANITIZE_THREAD__)
	struct sn_private_lease *lease;

	__asm__ volatile("la.tls.ie %0, sn_private_current\n\t"
			 "add %0, %0, tp\n\t"
			 "ld %0, 0(%0)"
			 : "=r"(lease)
			 :
			 : "memory");
	return lease;
#else
	return sn_private_current_slow();
#endif
}

/*
 * Says that the calling thread is about to block. `what` names the call; it is a string that stays
 * valid until sn_exit_blocking(), or NULL for no name. Costs half a nanosecond. Any thread; outside
 * a task it does nothing. Does not park. Until sn_exit_blocking() the task should call no sennit
 * function that may park: builds with SENNIT_DEBUG abort with the call's name; others carry it out
 * as usual, and the bracket ends early.
 */
static inline void sn_enter_blocking_as(const char *what)
{
	struct sn_private_lease *lease = sn_private_self();

	if (!lease)
		return;
#if defined SENNIT_DEBUG && SENNIT_DEBUG
	sn_private_bracket_check(lease, 1);
#endif
	__atomic_store_n(&lease->blocking, what ? what : "", __ATOMIC_RELAXED);
}

/* sn_enter_blocking_as() without a name. */
static inline void sn_enter_blocking(void)
{
	sn_enter_blocking_as(NULL);
}

/*
 * Ends the bracket that sn_enter_blocking() began. If the processor was given away in between, the
 * call waits for one, on the same thread. Otherwise it costs about a nanosecond, without an atomic
 * instruction or a system call. It preserves errno. Any thread, as above.
 */
static inline void sn_exit_blocking(void)
{
	struct sn_private_lease *lease = sn_private_self();

	if (!lease)
		return;
#if defined SENNIT_DEBUG && SENNIT_DEBUG
	sn_private_bracket_check(lease, 0);
#endif
	__atomic_store_n(&lease->blocking, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&lease->stays, lease->stays + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&lease->inside, 1, __ATOMIC_RELAXED);
	__asm__ volatile("" ::: "memory");
	if (__builtin_expect(__atomic_load_n(&lease->word, __ATOMIC_RELAXED) != 0, 0))
		sn_private_lease_lost(lease);
	__atomic_store_n(&lease->inside, 0, __ATOMIC_RELEASE);
}

/*
 * Calls fn(arg) within a bracket and returns its value; -EINVAL without fn. Outside a task it only
 * calls fn.
 */
SN_API int sn_blocking(sn_fn *fn, void *arg);

/*
 * Keeps the calling task on its present thread until sn_unpin() has been called as often as
 * sn_pin(), or until the task ends. Until then the thread runs no other task, and each park costs
 * two context switches of the OS. Meant for libraries that keep state in thread-locals across
 * calls, and for tasks that change what Linux keeps for each thread: namespaces, identity,
 * capabilities, CPUs, niceness, filters. None of that reaches another thread of the runtime, but
 * what the task itself starts inherits it: children, programs (process.h), and threads of
 * pthread_create().
 *
 * sn_unpin() hands the thread to other tasks as it is, so undo first what they must not inherit.
 * When a task ends while it is pinned, its thread ends too, without running another task; starting
 * a new thread costs some 100 us.
 *
 * Return 0, or -ENOTSUP outside a task. sn_pin() returns -EAGAIN when all but one of the threads
 * that SENNIT_MAX_THREADS allows are pinned; sn_unpin() returns -EINVAL when the task is not
 * pinned. Do not park.
 */
SN_API int sn_pin(void);
SN_API int sn_unpin(void);

SN_END

#endif
