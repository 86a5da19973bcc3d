/* SPDX-License-Identifier: MIT */
/*
 * The answer of a backend's agent, in the words of HAProxy's agent-check: one line of words
 * between spaces, tabs or commas, in any order. `75%` is the weight, relative to the configured
 * one; `maxconn:30` a limit of connections; `ready`, `drain` or `maint` the state that the
 * machine's administrator wants; `up`, `down`, `fail` or `stopped` the state of the service. A
 * description may follow a '#'. A setting that the line does not mention stays as it was. Of
 * several words of a kind the last one counts; case does not matter; unknown words are ignored.
 *
 * As in HAProxy (tcpcheck_agent_expect_reply() there), the line ends with the first CR or LF. A
 * line that is cut off by the end of the connection is not an answer, because a part of
 * "maxconn:30" would be another limit. HAProxy's manual once had "failed" for "fail", so both are
 * understood. A percentage or a limit that is not well formed is an unknown word.
 *
 * No allocation, no exceptions; the bytes may be anything, and in pieces.
 */
#ifndef RELAY_AGENT_ANSWER_HPP
#define RELAY_AGENT_ANSWER_HPP

#include "base/parsed.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace relay
{

/* The longest line, including its end. */
inline constexpr std::size_t agent_answer_most = 1024;

/* Larger values count as these. The largest percentage is HAProxy's. */
inline constexpr std::uint32_t agent_percent_most = 25600;
inline constexpr std::uint32_t agent_limit_most = 1'000'000'000;

/* The state that the machine's administrator wants. maint is drain and more (agent_state.hpp). */
enum class agent_admin : unsigned char { ready, drain, maint };

/* The state of the service. The last three mean the same to the relay; people see which one it
 * was. */
enum class agent_health : unsigned char { up, down, fail, stopped };

constexpr const char *to_string(agent_admin is) noexcept
{
	return is == agent_admin::ready ? "ready" : is == agent_admin::drain ? "drain" : "maint";
}

constexpr const char *to_string(agent_health is) noexcept
{
	return is == agent_health::up     ? "up"
	       : is == agent_health::down ? "down"
	       : is == agent_health::fail ? "fail"
					  : "stopped";
}

/* The texts are parts of the bytes that were parsed, and may be anything but ends of lines. */
struct agent_answer {
	std::optional<agent_admin> admin{};
	std::optional<agent_health> health{};
	std::optional<std::uint32_t> percent{}; /* at most agent_percent_most */
	std::optional<std::uint32_t> limit{};   /* at most agent_limit_most; 0: none */
	std::string_view description{};         /* empty: none */
	std::string_view ignored{};             /* the first unknown word; empty: none */
};

/* bytes: the part of the answer that has arrived. If the result is done, `into` is set;
 * otherwise it is empty. */
parsed parse_agent_answer(std::string_view bytes, agent_answer &into) noexcept;

} // namespace relay

#endif
