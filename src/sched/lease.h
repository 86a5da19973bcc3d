/* SPDX-License-Identifier: MIT */
/*
 * Leases: how a processor is taken away from a thread that blocks or that keeps it for too long,
 * without the cooperation of the code that does so.
 *
 * Contract. A thread that executes runtime code (it is *inside*) owns its processor outright. While
 * it executes user code (*outside*) it has the processor on a lease, which the monitor (sysmon.c)
 * may revoke at any moment. The thread notices that when it next comes inside, and then waits for a
 * processor with its task still on it. A revocation thus never moves a task to another thread, and
 * needs nothing from the code that is running: no annotation, no signal, no safe point.
 *
 * The words, in struct sn_private_lease (blocking.h), which every thread has:
 *   inside    1 inside, 0 outside. Written by the thread alone.
 *   stays     how often the thread has gone outside. It lets the monitor see whether two looks saw
 *             the same stay. A hint, written by the thread alone. It is not a part of inside, which
 *             would then have to be loaded before it is stored: a dependency through memory that
 *             costs 2 ns a bracket.
 *   word      enum sn_lease. The table below says which party makes each change. The thread changes
 *             it without a compare-and-swap only from REVOKED, which the monitor never changes.
 *   blocking  within a blocking bracket, the name of the call, or "" if it has none; else NULL.
 *             A hint, written by the thread alone.
 *
 *   HELD     -> REVOKING   the monitor begins               (compare-and-swap)
 *   REVOKING -> HELD       the thread is inside: not now    (compare-and-swap)
 *   REVOKING -> REVOKED    the thread is outside, and has lost its processor (compare-and-swap)
 *   REVOKING -> AWAITED    the thread has come inside, and sleeps until the decision
 *   AWAITED  -> HELD or REVOKED   as from REVOKING, and the monitor wakes it
 *   REVOKED  -> HELD       the thread has got a processor again (store)
 *   any      -> REVOKED    the end of the runtime (exchange)
 *   HELD     -> ASKED      a scanner of the thread's task (scan.h), or the monitor for its
 *                          processor, wants the thread to take the slow path
 *   ASKED    -> REVOKING   as from HELD; -> HELD   the thread, in the slow path
 * Where membarrier is missing HELD is called FENCED, and every entry takes the slow path. ASKED
 * counts as HELD in all that follows. It is never lost: a party that asks first sets asked, or
 * expired, and then tries HELD -> ASKED; a party that makes the word HELD again checks both after
 * that, and does the same.
 *
 * Lending. The monitor cannot revoke from a thread that it finds inside each time, because its task
 * only makes calls that do not park. It therefore also asks the thread to lend its processor
 * (expired): at its next entry the thread gives the processor away and waits for one, just as if it
 * had been revoked in user code. expired is the number of the processor's scheduling decision at
 * the time of the request, so that another task, which may run by the time the thread sees it, does
 * not pay for the first.
 *
 * Coming inside:                          Revoking:
 *      inside = 1;                             compare-and-swap word HELD -> REVOKING;
 *      compiler barrier;                       membarrier();
 *      if (word != HELD) slow path;            if (!inside) word = REVOKED;
 *                                              else word = HELD;
 *
 * This is Dekker's handshake: each side writes its own word and then reads the other's, and it must
 * not happen that neither sees the other. That needs a full barrier between the write and the read
 * on both sides. The thread comes inside many million times a second, and the monitor revokes a few
 * thousand times at most. The monitor therefore pays for both: membarrier(PRIVATE_EXPEDITED) makes
 * every running thread of the process execute a full barrier before it returns (an interrupt to
 * each CPU that runs one; a thread that does not run has passed a barrier in the kernel's
 * scheduler). When it returns, either the thread's store to inside is visible to the monitor, or
 * the thread has not yet executed its load of word, and will read REVOKING. The compiler barrier
 * keeps store and load in program order, which is all that membarrier's guarantee needs, on ARM
 * too.
 *
 * Going outside is a store-release of inside, and the monitor reads inside with acquire. Everything
 * that the thread did to the processor is therefore visible to the monitor, and through the
 * runtime's lock or a parker to the thread that gets the processor next.
 *
 * Invariants:
 *   - A processor has at most one thread. Inside, only its thread gives it up. Outside, only the
 *     monitor does, while the thread's word is REVOKING, which excludes the thread; and there is
 *     one monitor.
 *   - A thread whose word is REVOKED has no processor (self->processor is NULL) until it has
 *     stored HELD.
 *   - The monitor never waits for a thread. A thread waits for the monitor only between REVOKING
 *     and the decision: one membarrier.
 *
 * Where membarrier is refused (old kernels, seccomp), under TSan, which does not know it, and with
 * SENNIT_MEMBARRIER=0, both sides execute sequentially consistent fences. The thread's fence is in
 * the slow path, to which FENCED always leads, because it is not HELD. The fast path stays the
 * same.
 *
 * A seccomp filter can also refuse it later, to some threads or to all. The words of held leases
 * then stay HELD: making them FENCED would need a barrier on each thread, once, before the first
 * revocation that relies on it, because a thread may have read HELD and not yet have made its store
 * to inside visible. There is another way to such a barrier, which is slow: the monitor visits
 * every CPU (visit_every_cpu() in base/membarrier.c). It then does that for each revocation, and
 * the handshake stays the same. Where this is refused as well, nothing is revoked any more: the
 * lease goes back to HELD, as if the thread were inside.
 *
 * Rejected:
 *   - Instead of the visits: changing the protection of a page, which sends no interrupts to
 *     other CPUs on ARM and newer x86, and is no barrier by contract; signals, for the reasons
 *     below; asking threads to confirm FENCED at their next entry, because a thread that blocks
 *     forever makes none.
 *   - Compare-and-swap on both borders (Go): 11.5 ns a pair against 1.7, and it grows with the
 *     number of processors.
 *   - Signals to stop the thread: EINTR in foreign code, and conflicts with other handlers.
 *   - Letting the thread notice a revocation while outside (a poisoned page, a preemption flag
 *     that compiled code polls): C code has no safe points.
 *   - Moving the task away from the blocked thread: its errno and thread-locals would change
 *     under it.
 *   - rseq: its area is one for each thread and belongs to the C library.
 */
#ifndef SENNIT_SCHED_LEASE_H
#define SENNIT_SCHED_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include <sennit/blocking.h>

#include "arch/compiler.h"
#include "base/membarrier.h"

enum sn_lease {
	SN_LEASE_HELD = 0, /* blocking.h relies on this value */
	SN_LEASE_REVOKING = 1,
	SN_LEASE_AWAITED = 2,
	SN_LEASE_REVOKED = 3,
	SN_LEASE_FENCED = 4,
	SN_LEASE_ASKED = 5,
};

struct sn_thread;
struct sn_processor;

/* The word of a thread that holds its lease: HELD, or FENCED where there is no membarrier. */
static inline uint32_t sn_lease_held(void)
{
	return sn_membarrier_used() ? SN_LEASE_HELD : SN_LEASE_FENCED;
}

/*
 * Called by the monitor: tries to take the processor from the thread. Returns true if the processor
 * has no thread now, and the caller may give it away; false if the thread is inside, has another
 * processor by now, or no barrier could be executed. blocks says that the thread sleeps, and makes
 * the monitor expect that its task blocks again (may_block in task.h).
 */
bool sn_lease_revoke(struct sn_thread *thread, struct sn_processor *processor, bool blocks);

/*
 * Makes the thread check its task's scan requests at its next entry, if not earlier. May be called
 * by any thread that keeps the other from ending.
 */
void sn_lease_ask(struct sn_thread *thread);

/* Called by the monitor: makes the thread lend its processor at its next entry, if the decision
 * with this tick (sn_tick()) still holds then. */
void sn_lease_expire(struct sn_thread *thread, uint32_t tick);

/* Called at the end of the runtime: makes the thread leave the runtime at its next entry. */
void sn_lease_end(struct sn_thread *thread);

#endif
