/* SPDX-License-Identifier: MIT */
/*
 * Decides whether the answer to a check is good. An answer over HTTP must have one of the expected
 * statuses, and its body must contain the regular expression, if there is one. Any other answer
 * must begin with the expected bytes, or contain the regular expression.
 *
 * The pieces in which an answer arrives do not change whether it is good, only the reason why it
 * is not, unless they arrive within a few milliseconds before the deadline. The first answer_most
 * bytes of the answer, or of its body, are searched. If the expression is not in them and more
 * bytes follow, the answer is too long. While an answer arrives, its searches take a ninth of a
 * processor, or up to a third if one takes longer than 12 ms, except for a few right before the
 * deadline. At most searches_most searches run at a time in the process, because each may compute
 * for 50 ms and use 53 MiB of memory. A check that gets no turn before its deadline throws
 * std::bad_alloc.
 *
 * Deadlines are points in time here, never sn::no_deadline, because no check is endless.
 */
#ifndef RELAY_ANSWERS_HPP
#define RELAY_ANSWERS_HPP

#include "config/config.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <cstddef>
#include <string_view>
#include <system_error>

namespace relay
{

inline constexpr std::size_t answer_most = 65536;
inline constexpr int searches_most = 4;

/* Reads an answer until the deadline, which is also the read deadline; that may be another one
 * afterwards. Returns no error if the answer is good. Throws std::bad_alloc. May park. */
std::error_code read_answer(sn::tcp &from, const check_config &how, sn::deadline until);

/* The same for a datagram. */
std::error_code judge_datagram(std::string_view whole, const check_config &how, sn::deadline until);

} // namespace relay

#endif
