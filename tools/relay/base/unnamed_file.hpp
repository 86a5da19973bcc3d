/* SPDX-License-Identifier: MIT */
/*
 * A file without a name, for what a new process is to read: the environment cannot pass it, because
 * Linux limits each string of it to 128 KiB. The file may be on a disk, so it is not for secrets:
 * the keys of tickets have one of their own (tls_tickets.cc), and are not passed where there is
 * none.
 */
#ifndef RELAY_UNNAMED_FILE_HPP
#define RELAY_UNNAMED_FILE_HPP

#include <string>
#include <string_view>

namespace relay
{

/*
 * Returns a close-on-exec descriptor of a file with that text, which the caller closes. The file is
 * in memory, and cannot be changed where the system can seal it. If the system refuses such a file
 * or has no memory for it, it is one in /tmp that has no name any more. Throws std::system_error if
 * there is neither.
 */
int make_unnamed_file(std::string_view text);

/* Returns the text of such a file, and closes it. Throws if it cannot be read. */
std::string take_unnamed_file(int fd);

} // namespace relay

#endif
