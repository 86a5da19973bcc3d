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

#include <atomic>
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
 *
 * The alarm may outlive the run that has set it, and be set again in another one. When that run has
 * ended, or in a child of fork(), the destructor waits for nothing. If the alarm was set then, or
 * had gone off, the callable is not destroyed: the end of a run does not wait forever for a task in
 * foreign code, and that may be within the callable.
 */
class alarm
{
public:
	template <class F>
	requires std::invocable < std::decay_t<F>
	& > explicit alarm(F &&f)
	    : f_(std::make_unique<detail::callable_of<std::decay_t<F>>>(std::forward<F>(f))),
	state_(std::make_unique<state>(f_.get()))
	{
	}
	alarm(const alarm &) = delete;
	alarm &operator=(const alarm &) = delete;

	/* May park. */
	~alarm()
	{
		stop();
		await_tasks();
		if (state_->open > 0)
			abandon();
		if (is_shared_)
			static_cast<void>(f_.release());
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
		state &now = present();
		const bool prevented = sn_alarm_stop(&now.alarm) == 1;
		if (prevented)
			now.settle();
		return prevented;
	}

private:
	/* What the tasks of one run use. */
	struct state : detail::in_sight {
		explicit state(detail::callable *callable) : f(callable) {}
		/* A firing is prevented, or its task has ended. */
		void settle() noexcept
		{
			open--;
			sn_waitgroup_done(&running);
		}
		sn_alarm alarm = SN_ALARM_INIT;
		sn_waitgroup running = SN_WAITGROUP_INIT;
		std::atomic<std::uint32_t> open{0}; /* firings that are not settled */
		std::uint32_t run = 0;
		detail::callable *const f;
		state *next = nullptr; /* in the list of abandoned ones */
	};

	bool set(std::int64_t when)
	{
		/* Stop first: a start that fails does not report whether it prevented a firing. */
		const bool prevented = stop();
		state &now = of_this_run();
		now.open++;
		sn_waitgroup_add(&now.running, 1);
		const int result = sn_alarm_start(
			&now.alarm, when > 0 ? when : 1, 0,
			[](void *arg) {
				auto *its = static_cast<state *>(arg);
				try {
					its->f->call();
				} catch (...) {
					detail::exception_left_task();
				}
				its->settle();
				return 0;
			},
			&now);
		if (result != 0)
			now.settle(); /* a prevented firing, or this failed start */
		detail::throw_if_error(result, "sn::alarm::set");
		return prevented || result == 1;
	}

	state &present()
	{
		const std::lock_guard guard(change_);
		return *state_;
	}

	/* Tasks of an earlier run may be under way still, and settle what they belong to. */
	state &of_this_run()
	{
		const std::uint32_t run = sn_private_run();
		if (run == 0 || run == SN_PRIVATE_FORKED)
			detail::throw_if_error(-ESRCH, "sn::alarm::set");
		const std::lock_guard guard(change_);
		if (state_->run != run && state_->open > 0) {
			auto fresh = std::make_unique<state>(f_.get());
			abandon();
			state_ = std::move(fresh);
		}
		state_->run = run;
		return *state_;
	}

	/* Waits for the tasks of the run. Nothing tells a thread outside the runtime that the run
	 * has ended, so it looks. */
	void await_tasks() noexcept
	{
		constexpr std::int64_t patience = 100'000'000;
		/* This wait must not be cancelled with the scope. */
		const bool masked = sn_cancel_mask() == 0;
		while (state_->run == sn_private_run()) {
			const int err = sn_waitgroup_wait_until(
				&state_->running, sn_self() ? SN_NO_DEADLINE : sn_after(patience));
			if (err == 0)
				break;
			if (err != -ETIMEDOUT)
				std::terminate();
		}
		if (masked)
			sn_cancel_unmask();
	}

	/* Keeps the state, and the callable, forever; in a list, so that they are no leak. */
	void abandon() noexcept
	{
		static constinit std::atomic<state *> abandoned{nullptr};
		state *its = state_.release();
		is_shared_ = true;
		its->next = abandoned;
		while (!abandoned.compare_exchange_weak(its->next, its))
			;
	}

	std::unique_ptr<detail::callable> f_;
	std::mutex change_; /* of state_; held without any call of sennit that may park */
	std::unique_ptr<state> state_;
	bool is_shared_ = false; /* an abandoned state refers to the callable, too */
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
		detail::throw_if_error(n < 0 ? detail::reason_of(static_cast<int>(n)) : 0,
				       "sn::ticker::wait");
		return n;
	}

private:
	sn_ticker ticker_ = SN_TICKER_INIT;
};

} // namespace sennit

#endif
