/* SPDX-License-Identifier: MIT */
/*
 * The relay as a whole, as the runtime's first task: opens every listener before it accepts the
 * first client, answers signals, prints counters, and shuts down.
 *
 * A reload reads the whole file again. If anything in it is wrong, or a listener cannot be opened,
 * nothing changes, and the error is reported. Otherwise new listeners are opened and start
 * accepting; every listener that stays switches to the new configuration; and those that the
 * configuration no longer has are retired (listener.hpp). An address that is in both configurations
 * is never closed. Sessions continue with the configuration under which they were accepted.
 *
 * Shutting down has three steps: (1) the listeners are closed; (2) sessions may finish, for the
 * drain time at most; (3) the remaining ones are cut. The first SIGTERM or SIGINT starts this;
 * another one skips to (3).
 */
#ifndef RELAY_SERVER_HPP
#define RELAY_SERVER_HPP

#include "sessions/session.hpp"

namespace relay
{

/* Serves until the relay is stopped or replaced. Returns the exit status. Call it in a task.
 * `all` must outlive the run of the runtime. */
int serve(shared &all);

} // namespace relay

#endif
