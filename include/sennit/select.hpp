/* SPDX-License-Identifier: MIT */
/*
 * Select: waits for the first of several things, and does it (select.h).
 *
 * At most one case is done, and its function is called in the calling task before select()
 * returns. If several cases are ready, one of them is chosen at random. A case owns its function,
 * and the value that it is to send. It borrows what it waits for: a channel, a task or a scope is
 * neither moved nor destroyed before select() returns.
 *
 * select() may park, unless it has an otherwise(). When it fails, as with not_enough_memory, no
 * case was done. What a function throws passes through.
 *
 * Threads outside the runtime: selects over channels only. Signal handlers: none.
 */
#ifndef SENNIT_SELECT_HPP
#define SENNIT_SELECT_HPP

#include <sennit/result.hpp>
#include <sennit/select.h>
#include <sennit/time.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

namespace sennit
{

namespace detail
{

struct select_case {
	static constexpr bool is_default = false;
	static constexpr bool is_deadline = false;
};

/* Calls f with the result, or without an argument if f takes none. */
template <class F, class Result>
void tell(F &f, Result &&result)
{
	if constexpr (std::is_invocable_v<F &, Result>)
		static_cast<void>(std::invoke(f, std::forward<Result>(result)));
	else
		static_cast<void>(std::invoke(f));
}

inline sn_case of_channel(sn_chan *chan, void *elem, sn_case_op op) noexcept
{
	sn_case one = {};
	one.chan = chan;
	one.elem = elem;
	one.op = op;
	return one;
}

inline sn_case of_time(std::int64_t time) noexcept
{
	sn_case one = {};
	one.time = time;
	one.op = SN_CASE_TIME;
	return one;
}

template <class F>
struct default_case : select_case {
	explicit default_case(F &&g) : f(std::move(g)) {}
	static constexpr bool is_default = true;
	sn_case prepare() noexcept { return of_channel(nullptr, nullptr, SN_CASE_RECV); }
	void finish(int) { static_cast<void>(std::invoke(f)); }
	F f;
};

template <class F>
struct deadline_case : select_case {
	deadline_case(deadline d, F &&g) : until(d), f(std::move(g)) {}
	static constexpr bool is_deadline = true;
	sn_case prepare() noexcept { return of_channel(nullptr, nullptr, SN_CASE_RECV); }
	void finish(int) { static_cast<void>(std::invoke(f)); }
	deadline until;
	F f;
};

template <class F>
struct time_case : select_case {
	time_case(deadline d, F &&g) : when(d), f(std::move(g)) {}
	sn_case prepare() const noexcept { return of_time(to_ns(when)); }
	void finish(int) { static_cast<void>(std::invoke(f)); }
	deadline when;
	F f;
};

template <class F>
struct ready_case : select_case {
	ready_case(int d, int e, F &&g) : fd(d), events(e), f(std::move(g)) {}
	sn_case prepare() const noexcept
	{
		sn_case one = {};
		one.poll.fd = fd;
		one.poll.events = events;
		one.op = SN_CASE_POLL;
		return one;
	}
	void finish(int revents)
	{
		if (revents < 0)
			tell(f, result<int>(detail::failed(revents)));
		else
			tell(f, result<int>(revents));
	}
	int fd, events;
	F f;
};

/* The case of joining a task, whose handle is at *handle until it has been joined. */
template <class F>
struct end_case : select_case {
	end_case(sn_task **h, bool e, F &&g) : handle(h), ended(e), f(std::move(g)) {}
	sn_case prepare() const noexcept
	{
		if (ended)
			return of_time(INT64_MIN);
		sn_case one = {};
		one.task = *handle;
		one.op = SN_CASE_JOIN;
		return one;
	}
	void finish(int err)
	{
		if (err == 0) {
			*handle = nullptr;
			ended = true;
		}
		tell(f, nothing_or_error(err));
	}
	sn_task **handle;
	bool ended;
	F f;
};

template <class F>
struct scope_case : select_case {
	scope_case(sn_scope *s, F &&g) : scope(s), f(std::move(g)) {}
	sn_case prepare() const noexcept
	{
		sn_case one = {};
		one.scope = scope;
		one.op = SN_CASE_SCOPE;
		return one;
	}
	/* INT32_MIN, which is not an errno value, stands for an exception: scope.hpp. */
	void finish(int err) { tell(f, nothing_or_error(err == INT32_MIN ? -ECANCELED : err)); }
	sn_scope *scope;
	F f;
};

} // namespace detail

/* For select(): f is called when no other case is ready; select() does not wait then. */
template <class F>
auto otherwise(F f)
{
	return detail::default_case<F>(std::move(f));
}

/* For select(): f is called when no other case could proceed before the deadline. */
template <class F>
auto on_deadline(time_limit until, F f)
{
	return detail::deadline_case<F>(until.when(), std::move(f));
}

/* For select(): f is called when the time has come. Unlike on_deadline(), a select may have any
 * number of these. */
template <class F>
auto on_time(time_limit when, F f)
{
	return detail::time_case<F>(when.when(), std::move(f));
}

/*
 * For select(): f gets a result<int>, or no argument, when the descriptor is ready for one of the
 * events of poll(2). The result is the events that it is ready for, or bad_file_descriptor when it
 * is not open, or is closed during the wait. The descriptor remains the caller's; a negative one is
 * never ready.
 */
template <class F>
auto on_ready(int fd, int events, F f)
{
	return detail::ready_case<F>(fd, events, std::move(f));
}

/*
 * Does one of the cases, as sn_select(), and calls its function:
 *
 *	sn::select(
 *		jobs.on_recv([&](sn::result<job> next) { ... }),
 *		answers.on_send(answer, [&] { ... }),
 *		worker.on_end([&] { use(worker.join()); }),
 *		sn::on_ready(fd, POLLIN, [&] { ... }),
 *		sn::on_time(1s, [&] { ... }));
 *
 * The cases: channel::on_recv() and on_send() (channel.hpp), task::on_end() (task.hpp),
 * scope::on_end() (scope.hpp), on_time(), on_ready(), otherwise(), on_deadline(). The function of a
 * channel's case gets a result, which fails with std::errc::broken_pipe when the channel is closed,
 * unless it takes no argument. A select may have one otherwise() and one on_deadline(). Returns the
 * index of the case that was done. If none was, returns an error: the scope's reason,
 * not_enough_memory, or that of a descriptor that cannot be waited for. Exceptions from the
 * functions pass through. May park.
 */
template <class... Cases>
result<std::size_t> select(Cases &&...cases)
{
	constexpr std::size_t n = sizeof...(Cases);
	static_assert(
		(std::is_base_of_v<detail::select_case, std::remove_reference_t<Cases>> && ...),
		"the cases are on_recv(), on_send(), on_end(), on_ready(), on_time(), otherwise() "
		"and on_deadline()");
	static_assert((0 + ... + std::remove_reference_t<Cases>::is_default) <= 1);
	static_assert((0 + ... + std::remove_reference_t<Cases>::is_deadline) <= 1);

	/* One element more, which is never ready, so that a select without cases has an array,
	 * too. */
	sn_case each[n + 1] = {cases.prepare()..., {}};
	std::int64_t until = SN_NO_DEADLINE;
	const auto look = [&](auto &one) {
		using type = std::remove_reference_t<decltype(one)>;
		if constexpr (type::is_default)
			until = SN_TRY;
		else if constexpr (type::is_deadline)
			until = until == SN_TRY ? until : detail::to_ns(one.until);
	};
	(look(cases), ...);

	const int chosen = sn_select(each, n, until);
	std::size_t i = 0, done = n;
	const auto finish = [&](auto &one) {
		using type = std::remove_reference_t<decltype(one)>;
		bool mine = chosen == static_cast<int>(i);
		if constexpr (type::is_default)
			mine = chosen == -EAGAIN;
		else if constexpr (type::is_deadline)
			/* This deadline, not the scope's, which may come first. */
			mine = chosen == -ETIMEDOUT && detail::is_own_timeout(until);
		if (mine) {
			done = i;
			one.finish(each[i].result);
		}
		i++;
	};
	(finish(cases), ...);
	if (done == n)
		return detail::failed(detail::reason_of(chosen));
	return done;
}

} // namespace sennit

#endif
