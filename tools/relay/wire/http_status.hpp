/* SPDX-License-Identifier: MIT */
/*
 * The status line of an HTTP/1 answer (RFC 9112, section 4), read strictly: HTTP/1.0 or HTTP/1.1, a
 * space, three digits from 100 to 599, then the end of the line, or a space and a reason without
 * control characters. A line ends by CR and LF. Any other answer is taken to come from another
 * service.
 *
 * No allocation, no exceptions; the bytes may be anything, and in pieces.
 */
#ifndef RELAY_HTTP_STATUS_HPP
#define RELAY_HTTP_STATUS_HPP

#include "base/parsed.hpp"

#include <cstddef>
#include <string_view>

namespace relay
{

/* The longest line, including its end. */
inline constexpr std::size_t status_line_most = 1024;

/* bytes: the part of the answer that has arrived. If the result is done, `status` is set. */
parsed parse_status_line(std::string_view bytes, unsigned &status) noexcept;

} // namespace relay

#endif
