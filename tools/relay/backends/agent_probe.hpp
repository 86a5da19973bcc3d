/* SPDX-License-Identifier: MIT */
/*
 * One question to the agent of an endpoint: connects by plain TCP or to a Unix socket, sends the
 * configured text, and reads a line (agent_answer.hpp). TLS and PROXY headers are for the backend,
 * not for the agent beside it.
 *
 * All of this must end by the deadline. At most agent_answer_most + 1 bytes are read. An agent may
 * answer before it has read anything, and may reset the connection after its line.
 */
#ifndef RELAY_AGENT_PROBE_HPP
#define RELAY_AGENT_PROBE_HPP

#include "wire/agent_answer.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <string>
#include <system_error>

namespace relay
{

struct agent_line {
	char bytes[agent_answer_most];
	agent_answer says{}; /* refers to the bytes */
};

/* On success `into` has the answer. Otherwise `why` has the reason, in words. Throws
 * std::bad_alloc. May park. */
std::error_code ask_agent(const std::string &address, const std::string &send, sn::deadline until,
			  agent_line &into, std::string &why);

} // namespace relay

#endif
