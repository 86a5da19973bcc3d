/* SPDX-License-Identifier: MIT */
/*
 * Writes lines to a descriptor that other programs may share, whose reader may be slow or gone.
 *
 * A write to a full pipe waits, forever if nobody reads. O_NONBLOCK would be set for every process
 * that shares the open file description. Asking poll(2) first is not enough, because another
 * process may take the room before the write. So each write is a call that does not wait
 * (RWF_NOWAIT; MSG_DONTWAIT for sockets). The kernel knows RWF_NOWAIT only for pipes that pipe(2)
 * has opened, since 6.4. Others, also FIFOs with a name, are opened again for each write, as an
 * open file description of this process alone. Where that cannot be done either, as for terminals,
 * poll(2) is asked after all.
 */
#ifndef RELAY_WRITE_LINE_HPP
#define RELAY_WRITE_LINE_HPP

#include <chrono>
#include <string_view>

namespace relay
{

enum class line_end {
	written,
	no_room, /* in time; a part may have been written */
	failed,
};

/* Writes the line by one call, if there is room for all of it, and waits for room for that time at
 * most, in which the thread is blocked. If only a part of a line was written to stdout or stderr,
 * the next one begins with a '\n', so that the two stay apart. */
line_end write_line(int fd, std::string_view line, std::chrono::milliseconds patience) noexcept;

} // namespace relay

#endif
