/* SPDX-License-Identifier: MIT */
/*
 * `sennit-relay ctl`: the client of a control server (control.hpp). Each command is one request
 * over HTTP, and the server's answer is printed as it is.
 */
#ifndef RELAY_CTL_HPP
#define RELAY_CTL_HPP

namespace relay
{

/* Where the packaged relay has its control server. */
inline constexpr const char *default_control = "unix:/run/sennit-relay/control.sock";

/* argv[0] is "ctl". Returns the exit status: 0, 1 if the server refuses or cannot be reached, or
 * exit_usage. Starts and ends the runtime. */
int run_ctl(int argc, const char *const *argv);

} // namespace relay

#endif
