/* SPDX-License-Identifier: MIT */
#include "backends/agent_probe.hpp"

#include "backends/names.hpp"

namespace relay
{
namespace
{

std::error_code read_line(sn::tcp &from, agent_line &into, std::string &why)
{
	const auto no_answer = std::make_error_code(std::errc::protocol_error);
	std::size_t size = 0;
	for (;;) {
		const auto n = from.read(into.bytes + size, sizeof into.bytes - size);
		if (!n) {
			why = n.error().message();
			return n.error();
		}
		size += *n;
		const auto read = parse_agent_answer({into.bytes, size}, into.says);
		if (read)
			return {};
		if (read.is == parsed::state::bad)
			why = std::string("its answer is malformed: ") + read.why;
		else if (*n == 0)
			why = size == 0 ? "it closes the connection without an answer"
					: "its answer has no line end";
		else
			continue;
		return no_answer;
	}
}

} // namespace

std::error_code ask_agent(const std::string &address, const std::string &send, sn::deadline until,
			  agent_line &into, std::string &why)
{
	auto connected = connect_to_endpoint(address, until, first_words::unknown);
	if (!connected) {
		why = connected.error().message();
		return connected.error();
	}
	connected->set_read_deadline(until);
	connected->set_write_deadline(until);
	/* An agent that answers and closes immediately may already have reset the connection. Its
	 * answer can still be read. */
	if (!send.empty())
		static_cast<void>(connected->write_all(send));
	const auto failed = read_line(*connected, into, why);
	/* The line is complete, or useless, so this does not wait for further bytes of the
	 * agent. */
	connected->abort();
	return failed;
}

} // namespace relay
