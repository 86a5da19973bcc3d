/* SPDX-License-Identifier: MIT */
/*
 * Hands the listening sockets over to a new process of the program. The file that this process was
 * started from is run again, with the same arguments; it may be another version now.
 *
 * Both processes have the same sockets, so a client in a backlog is accepted by either, and none is
 * refused. The new process reports through a pipe that it serves (inherited.hpp); only then does
 * the old one stop accepting. If the new process ends before that, or does not report in time,
 * nothing changes: it is killed, and the old one continues.
 *
 * SIGTERM and SIGINT end the wait in the same way, and stay pending for the caller to answer, so
 * that whoever stops the relay need not know of the new process.
 *
 * A SIGHUP means that the process that serves reads its file after the signal. The new process may
 * have read it before. So a SIGHUP that comes to the old process during the handover stays pending,
 * and is passed on to the new one, and so is one for a while after that (late_reloads); the new
 * process answers what comes to itself as soon as it serves (early_signals.hpp). Before main() such
 * a signal ends it; then another one is started. What comes while the kernel ends the old process,
 * or later, is lost: kill(2) succeeds until its parent has waited for it.
 *
 * Rejected: to start it with these signals blocked, because a version that does not know of this
 * would never unblock them; with them ignored, because posix_spawn() cannot do that.
 */
#ifndef RELAY_HANDOVER_HPP
#define RELAY_HANDOVER_HPP

#include "handover/inherited.hpp"

#include "tls/tls_tickets.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <string>
#include <sys/types.h>
#include <vector>

namespace relay
{

/* The running program. */
struct program {
	std::string file;
	std::vector<std::string> arguments; /* including argv[0] */
	int link = -1; /* socket to the first process (supervisor.hpp), or -1 */
};

/* Describes the running program. To be called at the start, because its file may be replaced
 * later. */
program this_program(int argc, const char *const *argv);

/*
 * What becomes of a SIGHUP that the old process answers after the handover. It may have come before
 * that; a first process that has not read the report of the new process has sent it only to this
 * one; and the service manager, or a person, may not know of the new process either for some
 * seconds. It is passed on to the new process then, which at worst reads its file twice.
 */
class late_reloads
{
public:
	/* to: the new process, a child of this one. link: see program. */
	late_reloads(pid_t to, int link) noexcept : to_(to), link_(link) {}

	/* To be called each second or so: a SIGHUP is passed on until five seconds after the call
	 * that has first seen all_know(). */
	void look() noexcept;
	/* A SIGHUP has come. */
	void pass_on() noexcept;
	/* From now on passes on what comes without being called, until the process has ended. To be
	 * called when it will end soon. What the runtime has caught before is the caller's. */
	void pass_on_to_the_end() noexcept;
	/* Whether the first process has read of the new one, and the service manager has the
	 * message in its socket, from where it may read it later. */
	bool all_know() const noexcept;

private:
	bool is_over() const noexcept { return end_ != sn::no_deadline && sn::now() >= end_; }

	const pid_t to_;
	const int link_;
	sn::deadline end_ = sn::no_deadline;
};

/* Starts a new process, and hands over the listeners and the keys of TLS tickets. Returns its id
 * once it serves; or -1, and why has the reason. Call it in a task, while SIGCHLD is not ignored;
 * parks up to a minute. */
pid_t hand_over(const program &what, const std::vector<handed_listener> &listeners,
		const tls_tickets &tickets, std::string &why);

} // namespace relay

#endif
