/* SPDX-License-Identifier: MIT */
/*
 * Messages on stderr: whole lines, one write(2) each, so that lines of several tasks never mix. The
 * reader may be slow or gone: a line that cannot be written soon is dropped, so that the relay is
 * not held up.
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
