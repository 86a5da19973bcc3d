/* SPDX-License-Identifier: MIT */
/*
 * Messages on stderr for the user who has just typed something wrong: the errors of the command
 * line, and those of the configuration file at the start. Later errors are events (events.hpp).
 * And the lines on stdout that say where the relay listens. Each line is written by one call, if
 * there is room for it. The reader may be slow or gone: a line for which there is no room soon is
 * dropped, or cut if it is too long for a pipe to take all or nothing of it (write_line.hpp).
 */
#ifndef RELAY_REPORT_HPP
#define RELAY_REPORT_HPP

#include <string_view>

namespace relay
{

/* "sennit-relay: TEXT" as one line; control characters in the text become '?'. Any thread. */
void report(std::string_view text) noexcept;

/* TEXT as one line on stdout. Any thread. */
void print(std::string_view text) noexcept;

} // namespace relay

#endif
