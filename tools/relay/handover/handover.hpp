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
 * that whoever stops the relay need not know of the new process. SIGHUP is passed on to the new
 * process.
 */
#ifndef RELAY_HANDOVER_HPP
#define RELAY_HANDOVER_HPP

#include "handover/inherited.hpp"

#include "tls/tls_tickets.hpp"

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

/* Starts a new process, and hands over the listeners and the keys of TLS tickets. Returns its id
 * once it serves; or -1, and why has the reason. Call it in a task, while SIGCHLD is not ignored;
 * parks up to a minute. */
pid_t hand_over(const program &what, const std::vector<handed_listener> &listeners,
		const tls_tickets &tickets, std::string &why);

} // namespace relay

#endif
