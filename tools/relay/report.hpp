/* SPDX-License-Identifier: MIT */
/*
 * What the relay says on stderr: whole lines, each one write(2), so that lines of several tasks
 * never mix. Whoever reads them may be slow or gone: a line that cannot be written soon is dropped,
 * rather than to keep the relay from its work.
 */
#ifndef RELAY_REPORT_HPP
#define RELAY_REPORT_HPP

#include <string_view>

namespace relay
{

/* "sennit-relay: TEXT" as one line; control characters in the text become '?'. Any thread. */
void report(std::string_view text) noexcept;

} // namespace relay

#endif
