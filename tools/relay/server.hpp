/* SPDX-License-Identifier: MIT */
/*
 * The relay as a whole, as the runtime's first task: opens every door before the first client is
 * accepted, answers signals, prints counters, shuts down.
 *
 * A reload reads the file anew, as a whole. When anything in it is wrong, or a listener cannot be had,
 * nothing has changed, and what is wrong is reported. Otherwise, in this order: new listeners are
 * opened; every listener that stays serves by the new configuration; the new ones do; those that it
 * does not have are retired (door.hpp). So at no time is an address of both closed. Sessions go on by
 * the configuration that they were accepted with.
 *
 * Shutting down is three steps: (1) the doors are closed; (2) sessions may finish, for the drain
 * time at most; (3) what remains is cut. SIGTERM or SIGINT begins, another one goes on to (3).
 */
#ifndef RELAY_SERVER_HPP
#define RELAY_SERVER_HPP

#include "session.hpp"

namespace relay
{

/* Returns the exit status. In a task; all outlives the runtime's run. */
int serve(shared &all);

} // namespace relay

#endif
