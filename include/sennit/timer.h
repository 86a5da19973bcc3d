/* SPDX-License-Identifier: MIT */
/*
 * Timers: alarms, which start a task at a given time, and tickers, which tasks wait for. Both fire
 * once or periodically, and can be set again and stopped; there can be millions of them at the same
 * time. A task that only wants to wait uses sn_sleep(), and a call that should not last too long
 * has a deadline of its own.
 *
 * Both are values that begin as zeros, and must not be moved while they are active. Times are on
 * sn_now()'s clock. Neither fires early; how late depends on how busy the processors are. The n-th
 * firing of a period is due at first + n * period, however late the others were. Stopping needs no
 * memory; firing needs none except for the task of an alarm.
 *
 * They belong to the running runtime: when that ends (run.h) they fire no more, and are no longer
 * set. A later run may set them again, or free their memory.
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
 * The deadline ns nanoseconds from now. It is never SN_NO_DEADLINE: a deadline too far away becomes
 * the last that can be represented.
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
 * Sets the alarm: at the time `first`, and then every `period` ns if that is not 0, fn(arg) is run
 * as a new task, as by sn_go(). An active alarm is set again, as if it had been stopped before. A
 * firing of a periodic alarm is skipped while a processor has not yet started the previous one.
 * When there is no memory for the task, a single alarm tries again every 10 ms; a periodic one
 * tries again at the next period.
 *
 * Any thread while the runtime runs; concurrent calls that start or stop the same alarm wait for
 * each other. Does not park. Returns 1 when the alarm was active and its previous firing was
 * prevented; 0 otherwise; -EINVAL when first is not positive, the period is negative or fn is NULL;
 * -ENOMEM; -ESRCH when no runtime runs. After an error the alarm is as it was, except that after
 * -ENOMEM it is stopped.
 */
SN_API int sn_alarm_start(sn_alarm *alarm, int64_t first, int64_t period, sn_fn *fn, void *arg);

/*
 * Stops the alarm. Returns 1 when that has prevented a firing: if the alarm was to fire once, fn is
 * never called. Returns 0 when there was none to prevent: the alarm was not active, or has fired,
 * and then fn's task may be about to run. In both cases the runtime no longer touches the alarm.
 * Any thread; does not park. fn itself may call it, and may free the alarm's memory if it does not
 * fire again.
 */
SN_API int sn_alarm_stop(sn_alarm *alarm);

/* A ticker. */
typedef struct sn_ticker {
	uint64_t opaque[14]; /* not for programs */
} sn_ticker;

/* Not set. */
#define SN_TICKER_INIT    \
	{                 \
		{         \
			0 \
		}         \
	}

/*
 * Sets the ticker: it ticks at the time `first`, and then every `period` ns if that is not 0. An
 * active ticker is set again; ticks that nobody has waited for are forgotten. Returns and errors as
 * sn_alarm_start().
 */
SN_API int sn_ticker_start(sn_ticker *ticker, int64_t first, int64_t period);

/*
 * Stops the ticker: a wait that begins after it has returned gets no earlier tick. Present waits
 * continue, as the ticker may be set again. Returns 1 when it was active, or had a tick that nobody
 * had waited for; otherwise 0. Any thread; does not park. Its memory may be reused only when nobody
 * waits any more.
 */
SN_API int sn_ticker_stop(sn_ticker *ticker);

/*
 * Wait for a tick: forever, until a deadline, or not at all. Of several waiters, the one that came
 * first gets the tick. Any thread; tasks may park, except in the last form. Return the number of
 * ticks since the last wait that returned any: at least 1, and more when ticks were not waited for
 * in time. Errors: the reason of the calling task's scope when that is cancelled, even when there
 * is a tick; -ETIMEDOUT or -ENOMEM with a deadline; -EAGAIN from the try form.
 */
SN_API SN_CHECK_RESULT int64_t sn_ticker_wait(sn_ticker *ticker);
SN_API SN_CHECK_RESULT int64_t sn_ticker_wait_until(sn_ticker *ticker, int64_t deadline);
SN_API SN_CHECK_RESULT int64_t sn_ticker_try_wait(sn_ticker *ticker);

SN_END

#endif
