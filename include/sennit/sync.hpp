/* SPDX-License-Identifier: MIT */
/*
 * Locks, semaphores, flags, groups and barriers (mutex.h and its neighbours).
 *
 * For tasks and for the program's own threads, in any mixture. They meet the standard's
 * requirements (Lockable, TimedLockable, SharedTimedLockable), so std::unique_lock,
 * std::scoped_lock and std::shared_lock take them. Calls that would have to wait in a cancelled
 * scope throw std::system_error with the scope's reason (operation_canceled, timed_out), also when
 * they have a deadline that has passed. Otherwise calls with a deadline return false when that
 * passes, and try forms when they would have to wait.
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_SYNC_HPP
#define SENNIT_SYNC_HPP

#include <sennit/barrier.h>
#include <sennit/cond.h>
#include <sennit/mutex.h>
#include <sennit/once.h>
#include <sennit/rwlock.h>
#include <sennit/semaphore.h>
#include <sennit/time.hpp>
#include <sennit/waitgroup.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

namespace sennit
{

namespace detail
{

/* Returns true for success, false when the call's own deadline has passed; throws when the scope's
 * has, which gives the same error. */
inline bool done_by(std::int64_t deadline, int returned, const char *call)
{
	if (returned == -ETIMEDOUT && is_own_timeout(deadline))
		return false;
	throw_if_error(reason_of(returned), call);
	return true;
}

} // namespace detail

/*
 * As sn_mutex. Cancellation does not end lock(), so a std::lock_guard may be used in a destructor,
 * and in any clean-up of a cancelled scope. To stop waiting on cancellation, call
 * try_lock_until_cancelled().
 */
class mutex
{
public:
	constexpr mutex() noexcept = default;
	mutex(const mutex &) = delete;
	mutex &operator=(const mutex &) = delete;

	/* May park. Throws only in the callback of a scan (scan.h), where waiting is not
	 * possible. */
	void lock()
	{
		detail::throw_if_error(sn_mutex_lock_uncancelled(&mutex_), "sn::mutex::lock");
	}
	/* Locks it, or returns the reason for which the calling task's scope is cancelled. May
	 * park. */
	[[nodiscard]] result<void> try_lock_until_cancelled() noexcept
	{
		return detail::nothing_or_error(sn_mutex_lock(&mutex_));
	}
	bool try_lock() noexcept { return sn_mutex_try_lock(&mutex_) == 0; }
	void unlock() noexcept { sn_mutex_unlock(&mutex_); }

	/* May park. */
	template <class Rep, class Period>
	bool try_lock_for(const std::chrono::duration<Rep, Period> &d)
	{
		return try_until(detail::after_ns(d));
	}
	template <class Clock, class Duration>
	bool try_lock_until(const std::chrono::time_point<Clock, Duration> &when)
	{
		return try_until(detail::until_ns(when));
	}

	sn_mutex *get() noexcept { return &mutex_; }

private:
	bool try_until(std::int64_t when)
	{
		return detail::done_by(when, sn_mutex_lock_until(&mutex_, when),
				       "sn::mutex::try_lock_until");
	}

	sn_mutex mutex_ = SN_MUTEX_INIT;
};

/* As sn_rwlock; cancellation does not end lock() and lock_shared(), as with mutex::lock(). */
class shared_mutex
{
public:
	constexpr shared_mutex() noexcept = default;
	shared_mutex(const shared_mutex &) = delete;
	shared_mutex &operator=(const shared_mutex &) = delete;

	/* Lock and unlock for writing. May park, except try_lock(). */
	void lock()
	{
		detail::throw_if_error(sn_rwlock_write_uncancelled(&lock_),
				       "sn::shared_mutex::lock");
	}
	bool try_lock() noexcept { return sn_rwlock_try_write(&lock_) == 0; }
	void unlock() noexcept { sn_rwlock_write_unlock(&lock_); }
	template <class Rep, class Period>
	bool try_lock_for(const std::chrono::duration<Rep, Period> &d)
	{
		return try_until(detail::after_ns(d));
	}
	template <class Clock, class Duration>
	bool try_lock_until(const std::chrono::time_point<Clock, Duration> &when)
	{
		return try_until(detail::until_ns(when));
	}

	/* Lock and unlock for reading. May park, except try_lock_shared(). */
	void lock_shared()
	{
		detail::throw_if_error(sn_rwlock_read_uncancelled(&lock_),
				       "sn::shared_mutex::lock_shared");
	}
	/* As mutex::try_lock_until_cancelled(). May park. */
	[[nodiscard]] result<void> try_lock_until_cancelled() noexcept
	{
		return detail::nothing_or_error(sn_rwlock_write(&lock_));
	}
	[[nodiscard]] result<void> try_lock_shared_until_cancelled() noexcept
	{
		return detail::nothing_or_error(sn_rwlock_read(&lock_));
	}
	bool try_lock_shared() noexcept { return sn_rwlock_try_read(&lock_) == 0; }
	void unlock_shared() noexcept { sn_rwlock_read_unlock(&lock_); }
	template <class Rep, class Period>
	bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &d)
	{
		return try_shared_until(detail::after_ns(d));
	}
	template <class Clock, class Duration>
	bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &when)
	{
		return try_shared_until(detail::until_ns(when));
	}

private:
	bool try_until(std::int64_t when)
	{
		return detail::done_by(when, sn_rwlock_write_until(&lock_, when),
				       "sn::shared_mutex::try_lock_until");
	}
	bool try_shared_until(std::int64_t when)
	{
		return detail::done_by(when, sn_rwlock_read_until(&lock_, when),
				       "sn::shared_mutex::try_lock_shared_until");
	}

	sn_rwlock lock_ = SN_RWLOCK_INIT;
};

/*
 * As sn_cond, with std::unique_lock<sn::mutex>. The lock is held even when a wait throws. May park,
 * except when notifying.
 */
class condition_variable
{
public:
	constexpr condition_variable() noexcept = default;
	condition_variable(const condition_variable &) = delete;
	condition_variable &operator=(const condition_variable &) = delete;

	void notify_one() noexcept { sn_cond_signal(&cond_); }
	void notify_all() noexcept { sn_cond_broadcast(&cond_); }

	void wait(std::unique_lock<mutex> &lock)
	{
		detail::throw_if_error(sn_cond_wait(&cond_, lock.mutex()->get()),
				       "sn::condition_variable::wait");
	}
	template <class Predicate>
	void wait(std::unique_lock<mutex> &lock, Predicate holds)
	{
		while (!holds())
			wait(lock);
	}

	template <class Clock, class Duration>
	std::cv_status wait_until(std::unique_lock<mutex> &lock,
				  const std::chrono::time_point<Clock, Duration> &when)
	{
		return until(lock, detail::until_ns(when));
	}
	template <class Clock, class Duration, class Predicate>
	bool wait_until(std::unique_lock<mutex> &lock,
			const std::chrono::time_point<Clock, Duration> &when, Predicate holds)
	{
		return until(lock, detail::until_ns(when), holds);
	}
	template <class Rep, class Period>
	std::cv_status wait_for(std::unique_lock<mutex> &lock,
				const std::chrono::duration<Rep, Period> &d)
	{
		return until(lock, detail::after_ns(d));
	}
	template <class Rep, class Period, class Predicate>
	bool wait_for(std::unique_lock<mutex> &lock, const std::chrono::duration<Rep, Period> &d,
		      Predicate holds)
	{
		return until(lock, detail::after_ns(d), holds);
	}

private:
	std::cv_status until(std::unique_lock<mutex> &lock, std::int64_t when)
	{
		return detail::done_by(when, sn_cond_wait_until(&cond_, lock.mutex()->get(), when),
				       "sn::condition_variable::wait_until")
			       ? std::cv_status::no_timeout
			       : std::cv_status::timeout;
	}
	template <class Predicate>
	bool until(std::unique_lock<mutex> &lock, std::int64_t when, Predicate &holds)
	{
		while (!holds())
			if (until(lock, when) == std::cv_status::timeout)
				return holds();
		return true;
	}

	sn_cond cond_ = SN_COND_INIT;
};

/* As sn_semaphore, with the calls of std::counting_semaphore. */
class semaphore
{
public:
	explicit constexpr semaphore(int permits = 0) noexcept
	    : semaphore_ SN_SEMAPHORE_INIT(permits)
	{
	}
	semaphore(const semaphore &) = delete;
	semaphore &operator=(const semaphore &) = delete;

	/* Throws std::system_error when there would be too many, or n is below 1. */
	void release(int n = 1)
	{
		detail::throw_if_error(sn_semaphore_release(&semaphore_, n),
				       "sn::semaphore::release");
	}

	/* May park, except try_acquire(). */
	void acquire()
	{
		detail::throw_if_error(sn_semaphore_acquire(&semaphore_), "sn::semaphore::acquire");
	}
	bool try_acquire() noexcept { return sn_semaphore_try_acquire(&semaphore_) == 0; }
	template <class Rep, class Period>
	bool try_acquire_for(const std::chrono::duration<Rep, Period> &d)
	{
		return try_until(detail::after_ns(d));
	}
	template <class Clock, class Duration>
	bool try_acquire_until(const std::chrono::time_point<Clock, Duration> &when)
	{
		return try_until(detail::until_ns(when));
	}

private:
	bool try_until(std::int64_t when)
	{
		return detail::done_by(when, sn_semaphore_acquire_until(&semaphore_, when),
				       "sn::semaphore::try_acquire_until");
	}

	sn_semaphore semaphore_;
};

/* As sn_once_flag. */
class once_flag
{
public:
	constexpr once_flag() noexcept = default;
	once_flag(const once_flag &) = delete;
	once_flag &operator=(const once_flag &) = delete;

private:
	template <class F, class... Args>
	friend void call_once(once_flag &flag, F &&f, Args &&...args);

	sn_once_flag flag_ = SN_ONCE_INIT;
};

/*
 * Calls f(args...) unless a call with the flag has returned; waits while one is being made. If f
 * throws, its caller gets the exception, and the next caller makes its own call. f may park.
 */
template <class F, class... Args>
void call_once(once_flag &flag, F &&f, Args &&...args)
{
	std::exception_ptr thrown;
	auto call = [&]() noexcept {
		try {
			std::invoke(std::forward<F>(f), std::forward<Args>(args)...);
		} catch (...) {
			thrown = std::current_exception();
		}
		return thrown ? -1 : 0;
	};
	const int err = sn_once(
		&flag.flag_, [](void *arg) { return (*static_cast<decltype(call) *>(arg))(); },
		&call);
	if (thrown)
		std::rethrow_exception(std::move(thrown));
	detail::throw_if_error(err, "sn::call_once");
}

/* As sn_waitgroup. */
class wait_group
{
public:
	constexpr wait_group() noexcept = default;
	wait_group(const wait_group &) = delete;
	wait_group &operator=(const wait_group &) = delete;

	/* Throw std::system_error when the count would be negative, or too large. */
	void add(int n = 1)
	{
		detail::throw_if_error(sn_waitgroup_add(&group_, n), "sn::wait_group::add");
	}
	void done() { detail::throw_if_error(sn_waitgroup_done(&group_), "sn::wait_group::done"); }

	/* May park, except try_wait(). */
	void wait() { detail::throw_if_error(sn_waitgroup_wait(&group_), "sn::wait_group::wait"); }
	bool try_wait() noexcept { return sn_waitgroup_try_wait(&group_) == 0; }
	template <class Rep, class Period>
	bool wait_for(const std::chrono::duration<Rep, Period> &d)
	{
		return until(detail::after_ns(d));
	}
	template <class Clock, class Duration>
	bool wait_until(const std::chrono::time_point<Clock, Duration> &when)
	{
		return until(detail::until_ns(when));
	}

private:
	bool until(std::int64_t when)
	{
		return detail::done_by(when, sn_waitgroup_wait_until(&group_, when),
				       "sn::wait_group::wait_until");
	}

	sn_waitgroup group_ = SN_WAITGROUP_INIT;
};

/* As sn_barrier. */
class barrier
{
public:
	explicit constexpr barrier(unsigned parties) noexcept : barrier_ SN_BARRIER_INIT(parties) {}
	barrier(const barrier &) = delete;
	barrier &operator=(const barrier &) = delete;

	/* Waits for the other parties. Returns true for one caller of each round. May park. */
	bool arrive_and_wait()
	{
		const int result = sn_barrier_wait(&barrier_);
		detail::throw_if_error(result, "sn::barrier::arrive_and_wait");
		return result == SN_BARRIER_SERIAL;
	}

private:
	sn_barrier barrier_;
};

} // namespace sennit

#endif
