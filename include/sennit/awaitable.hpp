/* SPDX-License-Identifier: MIT */
/*
 * Tasks for the coroutines of C++20 that run elsewhere: in the executor of another library, or in
 * the loop of a user interface.
 *
 *	job show(window &on)
 *	{
 *		const auto page = co_await sn::spawn_awaitable(
 *			[] { return download("example.org"); },
 *			[&](std::coroutine_handle<> waiting) { on.post(waiting); });
 *		on.draw(page);
 *	}
 *
 * Code in a task needs no awaitable, not even in a coroutine that runs in a task: it makes a call
 * that may park, and waits there. An awaitable for each channel or timer would only be a second way
 * to write such a call, so there is one for everything.
 *
 * GCC 12 destroys the captures of a lambda that is written within the operand of co_await twice. If
 * they have destructors, make the lambda a variable, and pass std::move() of it.
 *
 * sennit.hpp does not include this header.
 *
 * Threads outside the runtime: all calls, while the runtime runs. Signal handlers: none.
 */
#ifndef SENNIT_AWAITABLE_HPP
#define SENNIT_AWAITABLE_HPP

#ifndef __cpp_impl_coroutine
#	error "awaitable.hpp needs coroutines: compile with -std=c++20"
#endif

#include <sennit/result.hpp>
#include <sennit/scope.h>
#include <sennit/scope.hpp>
#include <sennit/task.hpp>

#include <concepts>
#include <coroutine>
#include <functional>
#include <type_traits>
#include <utility>

namespace sennit
{

namespace detail
{

/* Lives in the frame of the coroutine that awaits it. */
template <class F, class Resume>
class awaitable_task
{
	using value_type = std::invoke_result_t<F &>;

public:
	awaitable_task(sn_scope *scope, bool in_scope, F f, Resume resume, const task_attr &attr)
	    : scope_(scope), in_scope_(in_scope), attr_(attr), f_(std::move(f)),
	      resume_(std::move(resume))
	{
	}

	bool await_ready() const noexcept { return false; }

	/* Once the task is started, it may resume the coroutine, which destroys this object, so
	 * nothing here is touched afterwards. An exception resumes the coroutine immediately. */
	void await_suspend(std::coroutine_handle<> waiting)
	{
		sn_scope *scope = scope_;
		const bool in_scope = in_scope_;
		const int err = start_with<run_and_resume>(
			started{this, waiting}, attr_, [scope, in_scope](auto... how) {
				return in_scope ? sn_scope_spawn(scope, how...)
						: sn_spawn(nullptr, how...);
			});
		throw_if_error(err, "sn::spawn_awaitable");
	}

	value_type await_resume() { return std::move(outcome_).get(); }

private:
	struct started {
		awaitable_task *self;
		std::coroutine_handle<> waiting;
	};

	struct run_and_resume {
		static int call(started &task) noexcept
		{
			task.self->outcome_.take_from(task.self->f_);
			/* Resuming the coroutine may destroy *self, so `resume` is moved out
			 * first. */
			Resume resume = std::move(task.self->resume_);
			std::invoke(resume, task.waiting);
			return 0;
		}
	};

	sn_scope *scope_;
	bool in_scope_;
	task_attr attr_;
	F f_;
	Resume resume_;
	outcome<value_type> outcome_;
};

} // namespace detail

/*
 * For co_await, once: starts f as a detached task, and continues with what f returns or throws when
 * it has ended. The task then calls resume(std::coroutine_handle<>), which must arrange that the
 * coroutine is resumed, in its own executor, and must not throw. (If resume() resumes the coroutine
 * itself, the rest of the coroutine becomes a part of the task.) f and resume may be move-only, and
 * are destroyed by the coroutine.
 *
 * The co_await throws std::system_error when the task cannot be started, as sn::go();
 * no_such_process when no runtime runs. If run() returns before the task has ended, the coroutine
 * is never resumed.
 */
template <class F, std::invocable<std::coroutine_handle<>> Resume>
requires std::invocable<F &>
[[nodiscard]] auto spawn_awaitable(F f, Resume resume, const task_attr &attr = {})
{
	return detail::awaitable_task<F, Resume>(nullptr, false, std::move(f), std::move(resume),
						 attr);
}

/*
 * The same as a task of a scope, with which it is cancelled; the scope must be open until the
 * coroutine has begun to wait. What f returns or throws goes to the coroutine, and does not cancel
 * the scope. The co_await throws the reason when the scope is cancelled already.
 */
template <class F, std::invocable<std::coroutine_handle<>> Resume>
requires std::invocable<F &>
[[nodiscard]] auto spawn_awaitable(scope &in, F f, Resume resume, const task_attr &attr = {})
{
	return detail::awaitable_task<F, Resume>(in.get(), true, std::move(f), std::move(resume),
						 attr);
}

} // namespace sennit

#endif
