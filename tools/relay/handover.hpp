/* SPDX-License-Identifier: MIT */
/*
 * Hands the listening sockets over to a new process of the program, which may be another version by
 * then: the file that this one was started from is run again, with the same arguments.
 *
 * The sockets are the same ones in both processes, so whoever is in a queue is accepted by either,
 * and nobody is refused. The new process tells by a pipe that it serves (inherited.hpp); only then
 * does the old one stop accepting. One that ends before that, or does not tell in time, has changed
 * nothing: it is killed, and the old one goes on.
 */
#ifndef RELAY_HANDOVER_HPP
#define RELAY_HANDOVER_HPP

#include "inherited.hpp"

#include <string>
#include <sys/types.h>
#include <vector>

namespace relay
{

/* What is running. */
struct program {
	std::string file;
	std::vector<std::string> arguments; /* the name that it was called by first */
};

/* At the start, as the file may be replaced later. */
program this_program(int argc, const char *const *argv);

/* The new process, which serves; or -1, and why. In a task; may park, for a minute at most. */
pid_t hand_over(const program &what, const std::vector<handed_listener> &listeners,
		std::string &why);

} // namespace relay

#endif
