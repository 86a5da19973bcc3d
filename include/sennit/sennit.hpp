/* SPDX-License-Identifier: MIT */
/*
 * The C++20 interface of sennit: the objects of the C headers as values that own what they hold.
 * Header-only; include it, or the header of one concept, and link the C library. The examples write
 * sn:: for sennit::, which is another header (sn.hpp).
 *
 *	int main()
 *	{
 *		return sn::run([] {
 *			auto server = sn::tcp_listener::listen("127.0.0.1:7000").value();
 *			for (;;)
 *				sn::go([peer = server.accept().value()]() mutable { greet(peer); });
 *		});
 *	}
 *
 * It differs from the C headers, whose comments apply otherwise, in these points:
 *
 *  - Errors. Similar calls fail alike. Calls that another party can end in the ordinary course of
 *    things (on a connection, a channel, a signal, the tasks of a scope) return a sn::result, to be
 *    tested, or turned into an exception by value(). Calls modelled on a class or function of the
 *    standard library (locks, condition variables, semaphores, wait groups, sleeping, starting and
 *    joining a task) fail as their model does: they throw std::system_error, and report that their
 *    own time is over as the model does, most by returning false. A call that only a task may make
 *    reports ENOTSUP outside a task, in whichever of these ways is its own.
 *  - Exceptions may be thrown and caught in tasks freely, also around calls that park; the
 *    exception that is being handled belongs to the task. An exception that leaves a task's
 *    function is rethrown by run(), task::join() and scope::join(). Nobody could catch one from a
 *    detached task (go()), so the task is named on stderr and std::terminate() is called. Programs
 *    that are compiled with -fno-exceptions use the C headers.
 *  - Cancellation. In a cancelled scope the calls that return results fail with its reason
 *    (std::errc::operation_canceled, timed_out); those that return nothing, such as sleep(), throw
 *    it.
 *  - Strings. A std::string with a zero inside, at which C would cut it, is refused with
 *    std::errc::invalid_argument where it is a name, an address, a path or an argument.
 *  - Time. Durations are any std::chrono durations, saturated to the nanoseconds in which the
 *    runtime counts. Where C takes a deadline, there is a time_limit here (time.hpp): a duration
 *    from now or a point in time. sn::no_deadline means "never".
 *  - Tasks that are alive when run() returns are abandoned, as in C: the destructors of the objects
 *    on their stacks do not run.
 *
 * Threads outside the runtime and signal handlers: what the C headers say of the calls underneath.
 */
#ifndef SENNIT_SENNIT_HPP
#define SENNIT_SENNIT_HPP

#if __cplusplus < 202002L
/* Without the rest, whose errors would hide this one. */
#	error "sennit.hpp is C++20: compile with -std=c++20; sennit.h serves older modes"
#elif !defined(__cpp_exceptions)
#	error "sennit.hpp needs exceptions: compile without -fno-exceptions, or use sennit.h"
#else
#	include <sennit/address.hpp>
#	include <sennit/buffered.hpp>
#	include <sennit/channel.hpp>
#	include <sennit/clock.hpp>
#	include <sennit/local.hpp>
#	include <sennit/net.hpp>
#	include <sennit/process.hpp>
#	include <sennit/resolve.hpp>
#	include <sennit/result.hpp>
#	include <sennit/scope.hpp>
#	include <sennit/select.hpp>
#	include <sennit/signal.hpp>
#	include <sennit/stop_token.hpp>
#	include <sennit/stream.hpp>
#	include <sennit/sync.hpp>
#	include <sennit/task.hpp>
#	include <sennit/time.hpp>
#	include <sennit/timer.hpp>
#	include <sennit/udp.hpp>
#	include <sennit/unix.hpp>
#	include <sennit/when_readable.hpp>
#endif

#include <sennit/sennit.h>

#endif
