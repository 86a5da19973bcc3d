/* SPDX-License-Identifier: MIT */
/*
 * Hands the listening sockets over to a new process of the program. The file that this process was
 * started from is run again, with the same arguments; by then it may be another version.
 *
 * Both processes have the same sockets, so a client in a backlog is accepted by either, and none is
 * refused. The new process reports through a pipe that it serves (inherited.hpp); only then does
 * the old one stop accepting. If the new process ends before that, or does not report in time,
 * nothing changes: it is killed, and the old one goes on.
 */
#ifndef RELAY_HANDOVER_HPP
#define RELAY_HANDOVER_HPP

#include "inherited.hpp"

#include <string>
#include <sys/types.h>
#include <vector>

namespace relay
{

/* The running program. */
struct program {
	std::string file;
	std::vector<std::string> arguments; /* including argv[0] */
};

/* To be called at the start, because the file may be replaced later. */
program this_program(int argc, const char *const *argv);

/* The id of the new process, which serves; or -1, and why. In a task; parks up to a minute. */
pid_t hand_over(const program &what, const std::vector<handed_listener> &listeners,
		std::string &why);

} // namespace relay

#endif
