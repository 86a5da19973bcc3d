/* SPDX-License-Identifier: MIT */
/*
 * Decides whether the answer to a check is good. An answer over HTTP must have one of the expected
 * statuses. Any other answer must begin with the expected bytes.
 *
 * The pieces in which an answer arrives do not change whether it is good.
 */
#ifndef RELAY_ANSWERS_HPP
#define RELAY_ANSWERS_HPP

#include "config/config.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <string_view>
#include <system_error>

namespace relay
{

/* Reads an answer until the read deadline. Returns no error if the answer is good. May park. */
std::error_code read_answer(sn::tcp &from, const check_config &how);

/* The same for a datagram. Does not park. */
std::error_code judge_datagram(std::string_view whole, const check_config &how);

} // namespace relay

#endif
