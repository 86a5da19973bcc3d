/* SPDX-License-Identifier: MIT */
/*
 * How the monitor sleeps, and what wakes it.
 *
 * The deep sleep, while every processor is idle. The monitor says under the runtime's lock that it
 * sleeps, when nothing needs it. A thread that takes a processor out of the idle ones, or asks for
 * a chore, holds the same lock, and wakes the monitor. So no wake-up is lost.
 *
 * The nap, between two looks. While no processor is idle, a thread that blocks delays others, and
 * only the monitor would notice. So then a nap may be no longer than SN_MONITOR_BUSY_NS. A thread
 * that takes the last idle processor ends a nap that is:
 *
 *   monitor: nap_until = ...; idle_count == 0? cut it short; sleep     (sn_sysmon_nap())
 *   taker:   idle_count = 0; nap_until too late? end the nap           (sn_sysmon_all_taken())
 *
 * Both accesses of each side are sequentially consistent, so one of the two sees the other
 * (models/nap.pml). It ends a shorter nap, too, if a processor was taken from a thread that blocked
 * a short time ago: in such a program the next thread that blocks may come at any moment. Programs
 * that never block pay nothing for it.
 *
 * A thread that has work and finds every processor taken ends the nap in any case
 * (sn_sysmon_hurry()), once in HURRY_NS, so that it costs little where all of them compute. That is
 * a hint: without it the work is noticed after SN_MONITOR_BUSY_NS.
 *
 * A nap is also interrupted for a moment, for what is not to wait for the next look: threads to be
 * started (birth.h). The monitor reads the word that it sleeps on, then looks for such work, and
 * sleeps only if the word is still the same. A thread that asks puts its work where the monitor
 * finds it, and then changes the word. All of that is sequentially consistent, and so is why a nap
 * was ended.
 *
 * Who may write what:
 *   sn_monitor_sleeps   under the runtime's lock, or in sn_sysmon_sleep_begin(), before there is
 *                       a monitor: true, the monitor; false, the thread that wakes it, or the
 *                       monitor when its time has come
 *   nap_until           the monitor; 0, the thread that ends the nap, which it is by a
 *                       compare-and-swap
 *   why                 that thread; SN_NAP_IS_OVER, the monitor
 *   prompt_until        the monitor
 */
#ifndef SENNIT_SCHED_SYSMON_SLEEP_H
#define SENNIT_SCHED_SYSMON_SLEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/compiler.h"

/* A run begins, perhaps in a child of fork(), whose parent's monitor slept. */
void sn_sysmon_sleep_begin(void);

/* The longest nap while no processor is idle. */
#define SN_MONITOR_BUSY_NS 1000000

/* Why a nap has ended. */
enum sn_nap_end {
	SN_NAP_IS_OVER,
	SN_NAP_IS_TOO_LONG, /* no processor is idle any more: look after SN_MONITOR_BUSY_NS */
	SN_NAP_IS_URGENT,   /* look now, and soon again */
};

/* The monitor: sleeps for so long, or until another thread ends the nap. Calls serve() first, and
 * whenever it is woken meanwhile. */
enum sn_nap_end sn_sysmon_nap(int64_t ns, void (*serve)(void));

/* The monitor: a thread that blocked has lost its processor. */
void sn_sysmon_note_blocked(int64_t now);

/* No processor is idle any more: the calling thread has taken the last one. */
void sn_sysmon_all_taken(void);

/* The calling thread has work, no processor, and found no idle one. */
void sn_sysmon_hurry(void);

/* The monitor: sleeps until it is woken, if may_sleep() says so under the lock, or until that time
 * (0: none). False: only the time has come, nothing has happened. */
bool sn_sysmon_sleep(int64_t until, bool (*may_sleep)(void));

extern bool sn_monitor_sleeps sn_hidden;

/* The runtime's lock is held. */
void sn_sysmon_wake(void);
static inline void sn_sysmon_wake_if_asleep(void)
{
	if (sn_monitor_sleeps)
		sn_sysmon_wake();
}

/* For a signal's handler, without the lock. */
void sn_sysmon_interrupt(void);

#endif
