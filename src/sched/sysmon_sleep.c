/* SPDX-License-Identifier: MIT */
#include "sched/sysmon_sleep.h"

#include <errno.h>
#include <stdatomic.h>

#include <sennit/clock.h>

#include "sched/runtime.h"
#include "sched/status.h"
#include "wait/checked.h"
#include "wait/futex.h"
#include "wait/lock.h"

/* A nap with less than WORTH_NS left is not ended. Hints end naps at most once in HURRY_NS. */
#define WORTH_NS 100000
#define HURRY_NS 1000000

/* The most extra looks in a row that find nothing, and how many regular looks earn one. A program
 * that causes a hint in each millisecond uses up its credit in 50 ms. */
#define EXTRA_LOOKS 256
#define EARNED_BY 4

/* For how long after a revocation the next thread that blocks is expected. */
#define PROMPT_NS 1000000000

bool sn_monitor_sleeps;
static _Atomic uint32_t wake_word;
static _Atomic int64_t nap_until; /* 0 if the monitor is in no nap that is worth ending */
static _Atomic int64_t prompt_until, hurried;
static _Atomic uint32_t why; /* enum sn_nap_end */
static _Atomic int credit;
static int earned; /* regular looks since the credit grew */

void sn_sysmon_sleep_begin(void)
{
	sn_monitor_sleeps = false;
	atomic_store(&nap_until, 0);
	atomic_store(&why, SN_NAP_IS_OVER);
	atomic_store(&prompt_until, 0);
	atomic_store(&hurried, 0);
	atomic_store(&credit, EXTRA_LOOKS);
	earned = 0;
}

/* ---- extra looks ---- */

void sn_sysmon_note_blocked(int64_t now)
{
	atomic_store_explicit(&prompt_until, now + PROMPT_NS, memory_order_relaxed);
	atomic_store_explicit(&credit, EXTRA_LOOKS, memory_order_relaxed);
}

void sn_sysmon_earn_look(void)
{
	const int has = atomic_load_explicit(&credit, memory_order_relaxed);

	if (has >= EXTRA_LOOKS || ++earned < EARNED_BY)
		return;
	earned = 0;
	atomic_store_explicit(&credit, has + 1, memory_order_relaxed);
}

bool sn_sysmon_spend_look(void)
{
	const int has = atomic_load_explicit(&credit, memory_order_relaxed);

	if (has > 0)
		atomic_store_explicit(&credit, has - 1, memory_order_relaxed);
	return has > 0;
}

void sn_sysmon_grant_looks(int n)
{
	const int has = atomic_load_explicit(&credit, memory_order_relaxed) + n;

	atomic_store_explicit(&credit, has < EXTRA_LOOKS ? has : EXTRA_LOOKS, memory_order_relaxed);
}

/* ---- naps ---- */

enum sn_nap_end sn_sysmon_nap(int64_t ns, void (*serve)(void))
{
	const int64_t now = sn_now();
	int64_t until = now + ns;
	enum sn_nap_end reason;
	uint32_t seen;
	bool over;

	if (ns >= WORTH_NS)
		atomic_store(&nap_until, until);
	if (ns > SN_MONITOR_BUSY_NS && atomic_load(&sn_runtime.idle_count) == 0) {
		int64_t former = until;

		/* A thread that finds the nap too long would end it, and it would begin again. */
		until = now + SN_MONITOR_BUSY_NS;
		atomic_compare_exchange_strong(&nap_until, &former, until);
	}
	do {
		/* Reads the word before it looks for work and for `why`: see end_nap(). */
		seen = atomic_load(&wake_word);
		serve();
		reason = (enum sn_nap_end)atomic_exchange(&why, SN_NAP_IS_OVER);
		if (reason != SN_NAP_IS_OVER || atomic_load(&sn_runtime.stopping))
			break;
		sn_checked_pass(); /* the monitor may wait here, between two looks */
		over = sn_futex_wait(&wake_word, seen, until) == -ETIMEDOUT;
		sn_checked_pass_end();
	} while (!over);
	atomic_store(&nap_until, 0);
	return reason;
}

/* Ends the nap. The monitor either finds `why` before it sleeps, or has read wake_word before this
 * changes it, and then does not sleep. */
static void end_nap(int64_t until, enum sn_nap_end reason)
{
	if (!atomic_compare_exchange_strong(&nap_until, &until, 0))
		return;
	atomic_store(&why, reason);
	atomic_fetch_add(&wake_word, 1);
	sn_futex_wake(&wake_word, 1);
}

/* Returns true to at most one thread in HURRY_NS, and to none without credit for two looks, because
 * a single one finds out little. */
static bool may_hurry(int64_t now)
{
	int64_t last = atomic_load_explicit(&hurried, memory_order_relaxed);

	return atomic_load_explicit(&credit, memory_order_relaxed) > 1 && now - last >= HURRY_NS &&
	       atomic_compare_exchange_strong(&hurried, &last, now);
}

void sn_sysmon_all_taken(void)
{
	const int64_t until = atomic_load(&nap_until);
	int64_t now;

	if (until == 0)
		return;
	now = sn_now();
	if (until - now > WORTH_NS &&
	    now < atomic_load_explicit(&prompt_until, memory_order_relaxed) && may_hurry(now))
		end_nap(until, SN_NAP_IS_URGENT);
	else if (until - now > SN_MONITOR_BUSY_NS)
		end_nap(until, SN_NAP_IS_TOO_LONG);
}

void sn_sysmon_hurry(void)
{
	const int64_t until = atomic_load(&nap_until);
	int64_t now;

	if (until == 0 || atomic_load(&sn_runtime.idle_count) > 0)
		return;
	now = sn_now();
	if (until - now > WORTH_NS && may_hurry(now))
		end_nap(until, SN_NAP_IS_URGENT);
}

void sn_sysmon_expect_block(void)
{
	const int64_t until = atomic_load(&nap_until);

	if (until == 0 || atomic_load(&sn_runtime.idle_count) > 0)
		return;
	if (until - sn_now() > WORTH_NS)
		end_nap(until, SN_NAP_IS_EXPECTED);
}

/* ---- the deep sleep ---- */

bool sn_sysmon_sleep(int64_t until, bool (*may_sleep)(void))
{
	uint32_t seen = atomic_load(&wake_word);
	bool sleeps, woken;

	sn_lock(&sn_runtime.lock);
	sn_monitor_sleeps = sleeps = may_sleep();
	sn_unlock(&sn_runtime.lock);
	if (!sleeps)
		return true;
	sn_checked_pass(); /* any thread that needs the monitor wakes it */
	woken = sn_futex_wait(&wake_word, seen, until) != -ETIMEDOUT;
	sn_checked_pass_end();
	if (woken)
		return true;
	sn_lock(&sn_runtime.lock);
	sleeps = sn_monitor_sleeps;
	sn_monitor_sleeps = false;
	sn_unlock(&sn_runtime.lock);
	return !sleeps;
}

void sn_sysmon_wake(void)
{
	sn_monitor_sleeps = false;
	sn_status_clock_set(sn_now());
	atomic_fetch_add(&wake_word, 1);
	sn_futex_wake(&wake_word, 1);
}

void sn_sysmon_interrupt(void)
{
	atomic_fetch_add(&wake_word, 1);
	sn_futex_wake(&wake_word, 1);
}
