/* SPDX-License-Identifier: MIT */
/*
 * Scopes and std::stop_token: cancelling a scope when a stop is requested, and the other way round.
 *
 *	void serve(std::stop_token token)
 *	{
 *		sn::scope all;
 *		sn::cancel_on_stop by_token(all, token);
 *		all.go([&] { accept_clients(all); });
 *		all.join();
 *	}
 *
 *	sn::stop_on_cancel stop;
 *	std::jthread worker([token = stop.get_token()] { compute(token); });
 *
 * Why neither races with the end of the scope. A cancel_on_stop holds the handle of a scope, not
 * the scope: after the scope has ended, the handle reaches nothing (scope.h). A stop may therefore
 * be requested at any time, and the two objects may end in any order. A stop_on_cancel is a scope
 * with one task, which waits for the scope's cancellation. The object's destructor waits for that
 * task, so afterwards nothing remains that could call anything. No lock of sennit is held while the
 * callbacks of a token run, and none is needed while a scope is being cancelled from such a
 * callback.
 *
 * A callback of a std::stop_token must not park. The standard library identifies a running callback
 * by its thread, which other tasks use while the callback is parked; and destroying a callback
 * while it runs blocks the thread.
 *
 * Rejected: a function that a scope calls when it is cancelled. The thread that cancels would run
 * it, at a deadline even the monitor, and the task that ends the scope would have to wait for it.
 *
 * Threads outside the runtime: cancel_on_stop. Signal handlers: none.
 */
#ifndef SENNIT_STOP_TOKEN_HPP
#define SENNIT_STOP_TOKEN_HPP

#include <sennit/result.hpp>
#include <sennit/scope.h>
#include <sennit/scope.hpp>
#include <sennit/semaphore.h>
#include <sennit/task.h>

#include <exception>
#include <stop_token>
#include <utility>

namespace sennit
{

/*
 * While this object exists, a stop request cancels the scope (std::errc::operation_canceled); the
 * constructor does so for a request that was made before. The scope may end before the object.
 */
class cancel_on_stop
{
public:
	cancel_on_stop(scope &in, std::stop_token token)
	    : callback_(std::move(token), cancel{in.get()})
	{
	}
	cancel_on_stop(const cancel_on_stop &) = delete;
	cancel_on_stop &operator=(const cancel_on_stop &) = delete;

private:
	struct cancel {
		sn_scope *scope;
		void operator()() const noexcept
		{
			if (scope)
				sn_scope_cancel(scope);
		}
	};

	std::stop_callback<cancel> callback_;
};

/*
 * While this object exists, the cancellation of the scope that the calling task works in requests a
 * stop, whatever the reason. The request comes soon after the cancellation, from a task that is
 * cancelled itself, and the destructor returns after it. The object is a scope of the task, as a
 * sn::scope is: both are left in the reverse order of their creation. The destructor may park: it
 * waits for callbacks of the token that are running.
 */
class stop_on_cancel
{
public:
	/* If the scope is cancelled already, the stop is requested. Throws std::system_error:
	 * not_enough_memory; not_supported outside a task. */
	stop_on_cancel()
	{
		int err = sn_scope_open(&scope_, SN_NO_DEADLINE);
		if (err == 0) {
			err = sn_scope_go(scope_, wait, this);
			if (err < 0)
				sn_scope_close(std::exchange(scope_, nullptr));
		}
		if (err < 0 && sn_cancelled() < 0)
			source_.request_stop();
		else
			detail::throw_if_error(err, "sn::stop_on_cancel");
	}
	stop_on_cancel(const stop_on_cancel &) = delete;
	stop_on_cancel &operator=(const stop_on_cancel &) = delete;

	/* Destroying the object in another order, or in another task, ends the program. */
	~stop_on_cancel()
	{
		if (!scope_ || !sn_self()) /* in a child of fork() */
			return;
		if (sn_scope_current() != scope_)
			std::terminate();
		sn_semaphore_release(&over_, 1);
		sn_scope_close(scope_);
	}

	/* The token stays valid after this object has ended, but then no stop is requested any
	 * more. */
	std::stop_token get_token() const noexcept { return source_.get_token(); }

private:
	static int wait(void *arg) noexcept
	{
		auto *self = static_cast<stop_on_cancel *>(arg);

		/* If the scope was cancelled before the end, the stop is requested even when both
		 * have come. */
		if (sn_semaphore_acquire(&self->over_) < 0 || sn_cancelled() < 0)
			self->source_.request_stop();
		return 0;
	}

	std::stop_source source_;
	sn_semaphore over_ = SN_SEMAPHORE_INIT(0);
	sn_scope *scope_ = nullptr;
};

} // namespace sennit

#endif
