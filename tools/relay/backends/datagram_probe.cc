/* SPDX-License-Identifier: MIT */
#include "backends/datagram_probe.hpp"

#include <algorithm>
#include <cstddef>

namespace relay
{
namespace
{

constexpr int most_sent = 4;

/* Whether the error is only that the read deadline, before the end of the check, is over. */
bool is_pause_over(const std::error_code &error, sn::deadline until) noexcept
{
	return error == std::errc::timed_out && sn::now() < until;
}

} // namespace

std::error_code probe_by_datagrams(const std::string &to, const check_config &how,
				   const std::string &header, sn::deadline until)
{
	auto socket = sn::udp::connect(to, until);
	/* The ports are separate from those of TCP, so this is about the machine's addresses. */
	if (!socket)
		return socket.error() == std::errc::address_not_available
			       ? std::make_error_code(std::errc::network_unreachable)
			       : socket.error();
	socket->set_write_deadline(until);
	const std::string question = header + how.send;
	std::string answer(how.expect.size(), '\0');
	for (;;) {
		if (const auto sent = socket->send(question.data(), question.size()); !sent)
			return sent.error();
		socket->set_read_deadline(std::min(sn::after(how.timeout / most_sent), until));
		const auto got = socket->receive(answer.data(), answer.size());
		/* The rest of a longer answer does not matter. */
		if (got || got.error() == std::errc::message_size)
			return (!got || got->size == answer.size()) && answer == how.expect
				       ? std::error_code()
				       : std::make_error_code(std::errc::protocol_error);
		if (!is_pause_over(got.error(), until))
			return got.error();
	}
}

} // namespace relay
