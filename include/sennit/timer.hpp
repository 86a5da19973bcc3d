/* SPDX-License-Identifier: MIT */
/*
 * Alarms, which start a task at a given time, and tickers, which a task waits for (timer.h).
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_TIMER_HPP
#define SENNIT_TIMER_HPP

#include <sennit/scope.h>
#include <sennit/task.hpp>
#include <sennit/timer.h>
#include <sennit/waitgroup.h>

#include <cerrno>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

namespace sennit
{

namespace detail
{

/* A callable of any type, where a garbage collector sees it. */
struct callable : in_sight {
	callable() = default;
	callable(const callable &) = delete;
	callable &operator=(const callable &) = delete;
	virtual ~callable() = default;
	virtual void call() = 0;
};

template <class F>
struct callable_of final : callable {
	template <class G>
	explicit callable_of(G &&g) : f(std::forward<G>(g))
	{
	}
	void call() override { static_cast<void>(std::invoke(f)); }
	F f;
};

} // namespace detail

/*
 * Runs a callable, which may be move-only, as a new task at a given time, once; as sn_alarm. For
 * periodic work, use a task with a ticker. The destructor stops the alarm, and waits for a task
 * that has begun, so the callable may refer to what lives longer than the alarm; it must not
 * destroy the alarm itself. An exception that leaves the callable ends the program, as with go().
 * The alarm may outlive the run that has set it, and be set again in another one; when that run has
 * ended, or in a child of fork(), the destructor waits for nothing.
 */
class alarm
{
public:
	template <class F>
	requires std::invocable < std::decay_t<F>
	& > explicit alarm(F &&f)
	    : f_(std::make_unique<detail::callable_of<std::decay_t<F>>>(std::forward<F>(f)))
	{
	}
	alarm(const alarm &) = delete;
	alarm &operator=(const alarm &) = delete;

	/* May park. */
	~alarm()
	{
		stop();
		if (run_ != sn_private_run())
			return;
		/* This wait must not be cancelled with the scope. */
		const bool masked = sn_cancel_mask() == 0;
		if (sn_waitgroup_wait(&running_) < 0)
			std::terminate();
		if (masked)
			sn_cancel_unmask();
	}

	/* Sets the alarm, also when it is set already. Returns true when that has prevented the
	 * previous firing. */
	template <class Rep, class Period>
	bool set_after(const std::chrono::duration<Rep, Period> &d)
	{
		return set(detail::after_ns(d));
	}
	template <class Clock, class Duration>
	bool set_at(const std::chrono::time_point<Clock, Duration> &when)
	{
		return set(detail::until_ns(when));
	}

	/* Stops the alarm. Returns true when that prevents the call of the callable; as
	 * sn_alarm_stop(). */
	bool stop() noexcept
	{
		const bool prevented = sn_alarm_stop(&alarm_) == 1;
		if (prevented)
			sn_waitgroup_done(&running_);
		return prevented;
	}

private:
	bool set(std::int64_t when)
	{
		/* Stop first: a start that fails does not report whether it prevented a firing. */
		const bool prevented = stop();
		begin_run();
		sn_waitgroup_add(&running_, 1);
		const int result = sn_alarm_start(
			&alarm_, when > 0 ? when : 1, 0,
			[](void *arg) {
				auto *self = static_cast<alarm *>(arg);
				try {
					self->f_->call();
				} catch (...) {
					detail::exception_left_task();
				}
				sn_waitgroup_done(&self->running_);
				return 0;
			},
			this);
		if (result != 0)
			sn_waitgroup_done(&running_); /* a prevented firing, or this failed start */
		detail::throw_if_error(result, "sn::alarm::set");
		return prevented || result == 1;
	}

	/* What an earlier run has counted does not end any more. */
	void begin_run()
	{
		const std::lock_guard guard(new_run_);
		const std::uint32_t now = sn_private_run();
		if (run_ != now)
			running_ = SN_WAITGROUP_INIT;
		run_ = now;
	}

	sn_alarm alarm_ = SN_ALARM_INIT;
	sn_waitgroup running_ = SN_WAITGROUP_INIT;
	std::mutex new_run_;    /* held without any call of sennit that may park */
	std::uint32_t run_ = 0; /* the run that running_ belongs to */
	std::unique_ptr<detail::callable> f_;
};

/* A synonym of alarm, for readers who look for a timer. */
using timer = alarm;

/* As sn_ticker; it may outlive the run that has started it. The destructor stops it, when nobody
 * may wait for it any more. */
class ticker
{
public:
	ticker() noexcept = default;

	/* Ticks every `period` from now on. */
	template <class Rep, class Period>
	explicit ticker(const std::chrono::duration<Rep, Period> &period)
	{
		start(period, period);
	}
	ticker(const ticker &) = delete;
	ticker &operator=(const ticker &) = delete;
	~ticker() { sn_ticker_stop(&ticker_); }

	/* Ticks after the duration `first`, and then every `period`, if that is not zero. */
	template <class Rep, class Period, class Rep2 = std::int64_t, class Period2 = std::nano>
	bool start(const std::chrono::duration<Rep, Period> &first,
		   const std::chrono::duration<Rep2, Period2> &period = {})
	{
		const int result =
			sn_ticker_start(&ticker_, detail::after_ns(first), detail::to_ns(period));
		detail::throw_if_error(result, "sn::ticker::start");
		return result == 1;
	}
	bool stop() noexcept { return sn_ticker_stop(&ticker_) == 1; }

	/* Waits for a tick. Returns the number of ticks since the last wait; 0 when there is none
	 * by the deadline. Throws the reason when the scope of the calling task is cancelled. May
	 * park. */
	std::int64_t wait(time_limit until = no_deadline)
	{
		const std::int64_t n = sn_ticker_wait_until(&ticker_, detail::to_ns(until));
		if (n == -ETIMEDOUT && detail::is_own_timeout(detail::to_ns(until)))
			return 0;
		detail::throw_if_error(n < 0 ? static_cast<int>(n) : 0, "sn::ticker::wait");
		return n;
	}

private:
	sn_ticker ticker_ = SN_TICKER_INIT;
};

} // namespace sennit

#endif
