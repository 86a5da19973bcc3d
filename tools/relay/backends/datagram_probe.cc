/* SPDX-License-Identifier: MIT */
#include "backends/datagram_probe.hpp"

#include "backends/answers.hpp"

#include <algorithm>
#include <cstddef>

namespace relay
{
namespace
{

constexpr int most_sent = 4;
constexpr std::size_t longest_datagram = 65535;

/* Whether the error is only that the read deadline, before the end of the check, is over. */
bool is_pause_over(const std::error_code &error, sn::deadline until) noexcept
{
	return error == std::errc::timed_out && sn::now() < until;
}

/* The reason of a failed connect(), which for UDP is about the machine's addresses and ports. */
std::error_code reason_of(const std::error_code &failed, const std::string &to)
{
	/* No address to send from, or none of that name. For TCP this error is a shortage of
	 * ports. */
	if (failed == std::errc::address_not_available)
		return std::make_error_code(std::errc::network_unreachable);
	/* No port is free, unless this is what a name server has answered.
	 * is_shortage() knows the error that TCP has for it. */
	if (failed == std::errc::resource_unavailable_try_again && sn::address::parse(to))
		return std::make_error_code(std::errc::address_not_available);
	return failed;
}

/* Whether the socket got the backend's own address, so that it would answer itself. The system may
 * choose a port for it that no backend has at the moment. */
bool is_own_peer(const sn::udp &socket)
{
	const auto local = socket.local();
	const auto peer = socket.peer();
	return local && peer && *local == *peer;
}

/* Whether this question is lost, or an earlier one, which a router has reported. To a socket that
 * keeps errors the system returns no_buffer_space also when a full queue or a rule of this machine
 * drops a datagram. If it is memory that is short, to ask again later is right as well. */
bool is_lost(const std::error_code &failed) noexcept
{
	return failed == std::errc::message_size || failed == std::errc::no_buffer_space;
}

/* Receives an answer until the read deadline. */
auto receive_into(sn::udp &socket, std::string &answer)
{
	for (;;) {
		auto got = socket.receive(answer.data(), answer.size());
		/* No datagram is longer than the buffer, so this error is the report of a router
		 * that a question did not fit. Then the question is lost. */
		if (got || got.error() != std::errc::message_size)
			return got;
	}
}

} // namespace

std::error_code probe_by_datagrams(const std::string &to, const check_config &how,
				   const std::string &header, sn::deadline until)
{
	auto socket = sn::udp::connect(
		to, until, {.flags = SN_UDP_ERRORS, .receive_buffer = 0, .send_buffer = 0});
	if (!socket)
		return reason_of(socket.error(), to);
	if (is_own_peer(*socket))
		return std::make_error_code(std::errc::connection_refused);
	socket->set_write_deadline(until);
	const std::string question = header + how.send;
	std::string answer(longest_datagram, '\0');
	for (;;) {
		/* A router's report may come here as well; the datagram itself is never too
		 * long. */
		if (const auto sent = socket->send(question.data(), question.size());
		    !sent && !is_lost(sent.error()))
			return sent.error();
		socket->set_read_deadline(std::min(sn::after(how.timeout / most_sent), until));
		const auto got = receive_into(*socket, answer);
		if (got)
			return judge_datagram({answer.data(), got->size}, how, until);
		if (!is_pause_over(got.error(), until))
			return got.error();
	}
}

} // namespace relay
