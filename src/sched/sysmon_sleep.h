/* SPDX-License-Identifier: MIT */
/*
 * How the monitor sleeps, and what wakes it.
 *
 * The deep sleep, while every processor is idle. The monitor checks that nothing needs it, and sets
 * sn_monitor_sleeps, both under the runtime's lock. A thread that takes an idle processor, or asks
 * for a chore, holds the same lock, and wakes the monitor if it sleeps. No wake-up is lost, because
 * the lock orders the two.
 *
 * The nap, between two looks. While no processor is idle, a thread that blocks delays others, and
 * only the monitor would notice. A nap must then not be longer than SN_MONITOR_BUSY_NS. A thread
 * that takes the last idle processor ends a longer nap:
 *
 *   monitor: nap_until = ...; idle_count == 0? make it short; sleep    (sn_sysmon_nap())
 *   taker:   idle_count = 0; nap_until too late? end the nap           (sn_sysmon_all_taken())
 *
 * Both accesses of each side are sequentially consistent, so one of the two sees the other
 * (models/nap.pml). The thread ends a shorter nap, too, if the monitor took a processor from a
 * thread that blocked a short time ago: in such a program another thread may block at any moment.
 * Programs that never block pay nothing for this.
 *
 * A thread that has work but no processor, and finds every processor taken, also ends the nap
 * (sn_sysmon_hurry()), once in HURRY_NS. That is a hint: without it a thread that blocks is noticed
 * by one of the next two looks.
 *
 * Extra looks are those that follow a hint, and those that follow another look after the shortest
 * period. They have to be worth their cost: on a busy machine a look takes 20 us of CPU, most of it
 * for the sleep before it, and takes the CPU from a thread that works. So there is a credit of
 * EXTRA_LOOKS. It is full after each revocation from a thread that blocked, and grows by one with
 * every EARNED_BY regular looks. Without credit there are only regular looks. A program that is
 * busy and never blocks pays for 1,250 looks a second. (A relay with 1,000 requests under way had
 * 2,100 to 6,400 looks a second without this rule, which took 5 to 11 % of its CPU time.)
 *
 * A task that has blocked its thread may well do so again. For some turns after its processor was
 * revoked, the thread that is about to run it therefore ends the nap, too (may_block in task.h,
 * sn_sysmon_expect_block()). These hints are few, nine for each revocation at most. So they have no
 * shortest interval, and each adds five looks to the credit. Without them a task that blocks ten
 * times a second is noticed by a regular look in most cases, because the hints of a busy program
 * use up the credit in between.
 *
 * A nap is also interrupted for a moment for work that must not wait for the next look: threads to
 * be started (birth.h). The monitor reads wake_word, then looks for such work, and sleeps only if
 * the word is still the same. A thread that asks puts its work where the monitor finds it, and then
 * changes the word. The reason for the end of a nap (why) is passed in the same way. All of these
 * accesses are sequentially consistent, so the monitor either finds the work or does not sleep.
 *
 * Who may write what:
 *   sn_monitor_sleeps   under the runtime's lock: the monitor sets it; the thread that wakes the
 *                       monitor clears it, or the monitor itself when its time has come. Also
 *                       sn_sysmon_sleep_begin(), before the monitor exists
 *   wake_word           any thread, by atomic additions
 *   nap_until           the monitor, which makes it earlier by compare-and-swap; the thread that
 *                       ends the nap, from that value to 0 by compare-and-swap, of which one
 *                       thread succeeds
 *   why                 that thread; the monitor puts SN_NAP_IS_OVER back
 *   prompt_until, credit, earned
 *                       the monitor; sn_sysmon_sleep_begin() before it exists. Others read the
 *                       first two relaxed, because an old value only moves a look
 *   hurried             the thread that ends a nap for a hint, by compare-and-swap
 */
#ifndef SENNIT_SCHED_SYSMON_SLEEP_H
#define SENNIT_SCHED_SYSMON_SLEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"

/* Called when a run begins, perhaps in a child of fork() that was made while the monitor slept. */
void sn_sysmon_sleep_begin(void);

/* The longest nap while no processor is idle. */
#define SN_MONITOR_BUSY_NS 1000000

/* Why a nap has ended. */
enum sn_nap_end {
	SN_NAP_IS_OVER,
	SN_NAP_IS_TOO_LONG, /* no processor is idle any more: nap for SN_MONITOR_BUSY_NS at most */
	SN_NAP_IS_URGENT,   /* look now, and some more times soon */
	SN_NAP_IS_EXPECTED, /* the same, because a task runs that is expected to block */
};

/* Called by the monitor: sleeps for ns, or until another thread ends the nap. Calls serve() before
 * it sleeps, and after each interruption. */
enum sn_nap_end sn_sysmon_nap(int64_t ns, void (*serve)(void));

/* Called by the monitor when a thread that blocked has lost its processor. */
void sn_sysmon_note_blocked(int64_t now);

/* Called by the monitor before each regular look, and before an extra one, which it leaves out if
 * the result is false. */
void sn_sysmon_earn_look(void);
bool sn_sysmon_spend_look(void);

/* Called by the monitor: allows n more extra looks. */
void sn_sysmon_grant_looks(int n);

/* Called by the thread that has taken the last idle processor. */
void sn_sysmon_all_taken(void);

/* Called by a thread that has work but no processor. */
void sn_sysmon_hurry(void);

/* Called by a thread that is about to run a task which has blocked in one of its last turns, or has
 * just come back from that. Holds no lock. */
void sn_sysmon_expect_block(void);

/* Called by the monitor: if may_sleep(), called under the lock, returns true, sleeps until it is
 * woken, or until that time if it is not 0. Returns false if only the time has come. */
bool sn_sysmon_sleep(int64_t until, bool (*may_sleep)(void));

extern bool sn_monitor_sleeps sn_hidden;

/* Wakes the monitor from a nap or a deep sleep. The runtime's lock is held. */
void sn_sysmon_wake(void);
static inline void sn_sysmon_wake_if_asleep(void)
{
	if (sn_monitor_sleeps)
		sn_sysmon_wake();
}

/* Interrupts a nap or a deep sleep. May be called in a signal handler, without the lock. */
void sn_sysmon_interrupt(void);

#endif
