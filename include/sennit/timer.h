/* SPDX-License-Identifier: MIT */
/*
 * Timers: alarms, which start a task at a time, and tickers, which are waited for. Both fire once
 * or periodically, can be set anew and be stopped; there can be millions of them at once. A task
 * that only wants to wait uses sn_sleep(), and a call that is not to last too long has a deadline
 * of its own.
 *
 * Both are values that begin as zeros, and must stay where they are while they are active. Times
 * are on sn_now()'s clock. Neither fires early; how late depends on how busy the processors are.
 * The n-th firing of a period is due at first + n * period, however late the others were. None
 * needs memory to be stopped; what fires in time does not need any but for the task of an alarm.
 *
 * They belong to the running runtime: when it ends (run.h) they fire no more, and are to be made
 * zeros again before the next one uses them.
 *
 * Threads outside the runtime: all calls. Signal handlers: sn_after().
 */
#ifndef SENNIT_TIMER_H
#define SENNIT_TIMER_H

#include <sennit/base.h>
#include <sennit/clock.h>
#include <sennit/run.h>

SN_BEGIN

/*
 * The deadline that lies ns nanoseconds from now. Never SN_NO_DEADLINE: one too far away to be told
 * is the last that there is.
 */
static inline int64_t sn_after(int64_t ns)
{
	int64_t now = sn_now();

	return ns > INT64_MAX - 1 - now ? INT64_MAX - 1 : ns < 0 ? now : now + ns;
}

/* An alarm. */
typedef struct sn_alarm {
	uint64_t opaque[12]; /* not for programs */
} sn_alarm;

/* Not set. */
#define SN_ALARM_INIT     \
	{                 \
		{         \
			0 \
		}         \
	}

/*
 * Sets the alarm: at first, and then each period ns, if that is not 0, fn(arg) is run as a new
 * task, as by sn_go(). An active alarm is set anew, as if it had been stopped before. Firings of a
 * periodic one that come while a processor has not yet started the former one are left out. When
 * there is no memory for the task of a single alarm, it is tried again every 10 ms; of a periodic
 * one, at the next period.
 *
 * Any thread while the runtime runs; one at a time for one alarm, or stops, else they wait for
 * each other. Does not park. Returns 1 when the alarm was active and its former firing was
 * prevented; 0 otherwise; -EINVAL when first is not positive, the period negative or fn NULL;
 * -ENOMEM; -ESRCH when no runtime runs. After an error it is as it was, after -ENOMEM it is
 * stopped.
 */
SN_API int sn_alarm_start(sn_alarm *alarm, int64_t first, int64_t period, sn_fn *fn, void *arg);

/*
 * Stops the alarm. Returns 1 when that has prevented a firing: of one that was to fire once, fn is
 * never called. 0 when there was none to prevent: it was not active, or has fired, and then fn's
 * task may be about to run. In both cases the alarm is not touched by the runtime any more. Any
 * thread; does not park. fn itself may call it, and may free the alarm's memory if it does not
 * fire again.
 */
SN_API int sn_alarm_stop(sn_alarm *alarm);

/* A ticker. */
typedef struct sn_ticker {
	uint64_t opaque[12]; /* not for programs */
} sn_ticker;

/* Not set. */
#define SN_TICKER_INIT    \
	{                 \
		{         \
			0 \
		}         \
	}

/*
 * Sets the ticker: it ticks at first, and then each period ns, if that is not 0. An active one is
 * set anew; ticks that nobody has waited for are forgotten. Returns and errors as
 * sn_alarm_start().
 */
SN_API int sn_ticker_start(sn_ticker *ticker, int64_t first, int64_t period);

/*
 * Stops the ticker: a wait that begins after it has returned gets no tick of before. Who waits
 * goes on waiting: it may be set again. Returns 1 when it was active, or a tick was there that
 * nobody had waited for; else 0. Any thread; does not park. Before its memory is reused nobody may
 * wait any more.
 */
SN_API int sn_ticker_stop(sn_ticker *ticker);

/*
 * Wait for a tick: for ever, until a deadline, or not at all. When several wait, a tick goes to
 * the one who came first. Any thread; tasks may park, but for the last form. Return the number of
 * ticks since the last wait that returned some, at least 1 and more when they were not waited for
 * in time; why the calling task's scope is cancelled, also when a tick is there; -ETIMEDOUT or
 * -ENOMEM with a deadline; -EAGAIN from trying.
 */
SN_API SN_CHECK_RESULT int64_t sn_ticker_wait(sn_ticker *ticker);
SN_API SN_CHECK_RESULT int64_t sn_ticker_wait_until(sn_ticker *ticker, int64_t deadline);
SN_API SN_CHECK_RESULT int64_t sn_ticker_try_wait(sn_ticker *ticker);

SN_END

#endif
