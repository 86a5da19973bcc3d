/* SPDX-License-Identifier: MIT */
/*
 * Scopes: structured concurrency, cancellation, and values that a scope's tasks share (scope.h).
 *
 * The task that makes a scope object is the only one that may join or destroy it. Both wait until
 * the tasks of the scope have ended, and may park. What lives longer than the object can therefore
 * be borrowed by its tasks. Any task or thread may start tasks in it, cancel it and move its
 * deadline, as long as it knows that the scope is open.
 *
 * The constructors of scope and cancel_shield, go() and scope_value::set() throw, and joining
 * rethrows what a task of the scope has thrown. All other errors are results.
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_SCOPE_HPP
#define SENNIT_SCOPE_HPP

#include <sennit/run.h>
#include <sennit/scope.h>
#include <sennit/select.hpp>
#include <sennit/task.h>
#include <sennit/task.hpp>

#include <atomic>
#include <cerrno>
#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

namespace sennit
{

/*
 * Structured concurrency, as in scope.h: the tasks started in a scope have ended when join() or the
 * destructor returns. The task that makes a scope works in it until then. Scopes are left in the
 * reverse order of their creation, as their destructors ensure. A scope cannot be moved, because
 * tasks know it by its address.
 *
 *	sn::scope all(5s);
 *	for (auto &job : jobs)
 *		all.go([&] { job.fetch(); });
 *	all.join().value();
 */
class scope
{
public:
	/* Throws std::system_error: the reason, when the scope around is cancelled;
	 * not_enough_memory.
	 */
	explicit scope(time_limit until = no_deadline)
	{
		detail::throw_if_error(sn_scope_open(&scope_, detail::to_ns(until)), "sn::scope");
	}
	scope(const scope &) = delete;
	scope &operator=(const scope &) = delete;

	/*
	 * If the scope was not joined, as when an exception passes, cancels it and waits. A scope
	 * that is destroyed in another order, or in another task, ends the program: its tasks would
	 * lose what they use.
	 */
	~scope()
	{
		if (!scope_ || !sn_self()) /* in a child of fork() */
			return;
		if (sn_scope_current() != scope_)
			std::terminate();
		cancel();
		sn_scope_close(scope_);
	}

	/*
	 * Starts f, which may be move-only, as a task of the scope. f returns nothing, a sn::result
	 * of any type, or an int as C tasks do. An error or a negative int cancels the scope and is
	 * what join() returns; an exception cancels it and is what join() throws. Of several, the
	 * first counts. Throws std::system_error with the reason when the scope is cancelled, and
	 * as sn::go() does. Any task or thread that knows the scope to be open.
	 */
	template <class F>
	requires std::invocable < std::decay_t<F>
	& > void go(F &&f, const task_attr &attr = {})
	{
		const int err = start(std::forward<F>(f), attr, [this](auto... how) {
			return sn_scope_spawn(scope_, how...);
		});
		detail::throw_if_error(err, "sn::scope::go");
	}

	/*
	 * For calls that start a task of the scope in another way than go(), as go_when_readable()
	 * does (when_readable.hpp): spawn(sn_fn *, void *arg, const sn_task_attr *) starts it and
	 * returns 0 or an error, as sn_scope_spawn(). Returns what spawn has returned, or -EINVAL
	 * after join(). f is as for go().
	 */
	template <class F, class Spawn>
	int start(F &&f, const task_attr &attr, Spawn spawn)
	{
		using body = scoped<std::decay_t<F>>;
		if (!scope_)
			return -EINVAL;
		return detail::start_with<call_scoped, body>(body{this, std::forward<F>(f)}, attr,
							     std::move(spawn));
	}

	/*
	 * Moves the deadline, also to no_deadline; as sn_scope_set_deadline(). The error is the
	 * reason when the scope is cancelled already; invalid_argument after join(). Any task or
	 * thread that knows the scope to be open.
	 */
	result<void> set_deadline(time_limit until) noexcept
	{
		return detail::nothing_or_error(
			sn_scope_set_deadline(scope_, detail::to_ns(until)));
	}

	/* Cancels the scope. Any task or thread that knows the scope to be open. */
	void cancel() noexcept
	{
		if (scope_)
			sn_scope_cancel(scope_);
	}

	/*
	 * Waits for the tasks, and ends the scope; as sn_scope_close(). Fails with invalid_argument
	 * when the scope was joined before, or is not the one that the calling task made last. May
	 * park.
	 */
	result<void> join() { return join_until(no_deadline); }

	/*
	 * As join(), but cancels the tasks that are left at the deadline, and waits for these too.
	 * Fails with timed_out when it had to cancel; as sn_scope_close_until(). May park.
	 *
	 *	if (connections.join_until(2s).error() == std::errc::timed_out)
	 *		std::puts("some connections were cut");
	 */
	result<void> join_until(time_limit until)
	{
		if (!sn_self())
			return unexpected(std::errc::not_supported);
		if (!scope_ || sn_scope_current() != scope_)
			return unexpected(std::errc::invalid_argument);
		/* scope_ stays set until the scope has ended, because its tasks may cancel it. */
		const int err = sn_scope_close_until(scope_, detail::to_ns(until));
		scope_ = nullptr;
		if (err == thrown && exception_)
			std::rethrow_exception(std::exchange(exception_, nullptr));
		return detail::nothing_or_error(err);
	}

	/*
	 * For select(), in the task that has made the scope, or another one: f gets a result<void>,
	 * or no argument, when no task of the scope is left, or it was cancelled. The error is what
	 * join() would return; operation_canceled stands for an exception. Tasks that work in the
	 * scope, such as the one that has made it, are cancelled with it, and so is their select().
	 * After join() the case is never ready.
	 */
	template <class F>
	auto on_end(F f) const
	{
		return detail::scope_case<F>(scope_, std::move(f));
	}

	/* For the calls of scope.h; NULL after join(). */
	sn_scope *get() const noexcept { return scope_; }

private:
	/* What a task that has thrown returns to C; not an errno value. */
	static constexpr int thrown = INT32_MIN;

	template <class F>
	struct scoped {
		scope *self;
		F f;
	};

	struct call_scoped {
		template <class B>
		static int call(B &body) noexcept
		{
			try {
				using R = std::invoke_result_t<decltype(body.f) &>;
				if constexpr (std::is_void_v<R>) {
					std::invoke(body.f);
					return 0;
				} else if constexpr (std::is_convertible_v<R, int>) {
					return std::invoke(body.f);
				} else {
					return to_errno(std::invoke(body.f).error());
				}
			} catch (...) {
				if (!sn_self()) /* in a child of fork(), where nobody joins */
					detail::exception_left_task();
				body.self->keep(std::current_exception());
				return thrown;
			}
		}
	};

	/* Keeps the first exception only. It is read when all tasks have ended. */
	void keep(std::exception_ptr exception) noexcept
	{
		if (!kept_.test_and_set(std::memory_order_relaxed))
			exception_ = std::move(exception);
	}

	sn_scope *scope_ = nullptr;
	std::atomic_flag kept_ = ATOMIC_FLAG_INIT;
	std::exception_ptr exception_;
};

/* No error, or the reason for which the scope that the calling task works in is cancelled. */
inline std::error_code cancelled() noexcept
{
	return {-sn_cancelled(), std::generic_category()};
}

/* The earliest deadline of the scopes that the calling task works in; no_deadline for none. */
inline deadline scope_deadline() noexcept
{
	return deadline(clock::duration(sn_scope_deadline()));
}

/* While an object of this type exists, the waits of the task that made it are not cancelled. */
class cancel_shield
{
public:
	cancel_shield() { detail::throw_if_error(sn_cancel_mask(), "sn::cancel_shield"); }
	cancel_shield(const cancel_shield &) = delete;
	cancel_shield &operator=(const cancel_shield &) = delete;
	~cancel_shield() { sn_cancel_unmask(); }
};

/*
 * A T that the tasks of a scope see without its being passed to them; use one static variable for
 * each purpose.
 *
 *	static sn::scope_value<request_id> current_request;
 */
template <class T>
class scope_value
{
public:
	constexpr scope_value() = default;
	scope_value(const scope_value &) = delete;
	scope_value &operator=(const scope_value &) = delete;

	/* Gives the scope a value, which must outlive it. Only the task that made the scope may
	 * call this. */
	void set(scope &in, T &value)
	{
		detail::throw_if_error(sn_scope_set_value(in.get(), this, std::addressof(value)),
				       "sn::scope_value::set");
	}
	/* The value of the innermost scope that has one; nullptr when none has. */
	T *get() const noexcept { return static_cast<T *>(sn_scope_value(this)); }

private:
	char distinct_ = 0; /* constants could share an address otherwise */
};

} // namespace sennit

#endif
