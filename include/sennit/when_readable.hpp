/* SPDX-License-Identifier: MIT */
/*
 * Quiet connections: a task that begins when there is something to read (when_readable.h).
 *
 *	void serve(sn::tcp peer)
 *	{
 *		if (answer_one_request(peer))
 *			sn::go_when_readable(std::move(peer), serve);
 *	}
 *
 * Threads outside the runtime and signal handlers: none.
 */
#ifndef SENNIT_WHEN_READABLE_HPP
#define SENNIT_WHEN_READABLE_HPP

#include <sennit/result.hpp>
#include <sennit/scope.hpp>
#include <sennit/stream.hpp>
#include <sennit/task.hpp>
#include <sennit/when_readable.h>

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

namespace sennit
{

namespace detail
{

/* A callable that passes the connection on to the function. */
template <class Conn, class F>
struct handed_over {
	Conn conn;
	F f;
	auto operator()() { return std::invoke(f, std::move(conn)); }
};

} // namespace detail

/*
 * Gives up the connection to a task that calls f(connection) as soon as there is something to read,
 * or an error or a deadline ends the wait for it, as sn_go_when_readable(). Until then there is no
 * stack. After an error, which is that of the C function, nothing was started and the connection
 * and f are gone.
 */
template <byte_stream Conn, class F>
requires std::invocable<F &, Conn> result<void> go_when_readable(Conn conn, F f,
								 const task_attr &attr = {})
{
	sn_stream *stream = conn.as_stream();
	using body = detail::handed_over<Conn, F>;
	return detail::nothing_or_error(detail::start_with<detail::detached_body>(
		body{std::move(conn), std::move(f)}, attr,
		[stream](auto... how) { return sn_spawn_when_readable(stream, nullptr, how...); }));
}

/* The same as a task of a scope. What f returns or throws is as for scope::go(). */
template <byte_stream Conn, class F>
requires std::invocable<F &, Conn> result<void> go_when_readable(scope &in, Conn conn, F f,
								 const task_attr &attr = {})
{
	sn_stream *stream = conn.as_stream();
	using body = detail::handed_over<Conn, F>;
	return detail::nothing_or_error(
		in.start(body{std::move(conn), std::move(f)}, attr, [&in, stream](auto... how) {
			return sn_spawn_when_readable(stream, in.get(), how...);
		}));
}

} // namespace sennit

#endif
