/* SPDX-License-Identifier: MIT */
/*
 * SIGHUP, SIGUSR1 and SIGUSR2 that come before the relay serves, such as those that are sent to all
 * of its processes while a new one starts. They must not end it, and a configuration that it has
 * read before a SIGHUP must be read again. So they are noted, and sent again as soon as they are
 * caught.
 *
 * SIGHUP has no time without an answer at the end either: a process that has handed over passes on
 * what comes after it has looked for the last time.
 *
 * A signal that comes before main() still ends the process. If that is a new process, the old one
 * starts another (handover.hpp).
 *
 * Rejected: to block them until then. The runtime's threads would have the mask of the thread that
 * starts it, and a version that does not know of this would never unblock them after a handover.
 */
#ifndef RELAY_EARLY_SIGNALS_HPP
#define RELAY_EARLY_SIGNALS_HPP

#include <sys/types.h>

namespace relay
{

/* To be called first in main(). A child of fork() has what was noted before. */
void note_early_signals() noexcept;

/* Restores what note_early_signals() has replaced, for a process that will not serve, and sends the
 * signals again that were noted. */
void forget_early_signals() noexcept;

/* To be called when the runtime catches the signals. */
void send_early_signals_again() noexcept;

/* From now on each SIGHUP goes to that process, also when the runtime has ended; but not those that
 * the runtime has caught before. */
void pass_reloads_on(pid_t to) noexcept;

} // namespace relay

#endif
