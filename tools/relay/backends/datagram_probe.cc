/* SPDX-License-Identifier: MIT */
#include "backends/datagram_probe.hpp"

#include "backends/answers.hpp"
#include "base/udp_reports.hpp"

#include <algorithm>
#include <cstddef>
#include <sys/socket.h>

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

/* Whether a call may have failed for what concerns one question alone, which is lost then: it was
 * too large for a link, or its fragments were lost. */
bool may_be_about_one(const std::error_code &failed) noexcept
{
	return failed == std::errc::message_size || failed == std::errc::host_unreachable;
}

/* The error of a report that is final. */
std::error_code final_report(const sn::udp &socket) noexcept
{
	bool is_any = false;
	return {take_reports(socket.get(), is_any), std::generic_category()};
}

/*
 * Sends the question. Returns no error if it is sent or lost. The error of the first call may be
 * about an earlier question, or that a full queue or a rule of this machine has dropped this one.
 * The second call is about this question alone: a socket that keeps no errors is not notified of
 * such a drop, so no_buffer_space is a lack of memory then.
 */
std::error_code ask(sn::udp &socket, const std::string &question, bool is_v6)
{
	auto sent = socket.send(question.data(), question.size());
	if (sent)
		return {};
	if (!may_be_about_one(sent.error()) && sent.error() != std::errc::no_buffer_space)
		return sent.error();
	if (const auto failed = final_report(socket))
		return failed;
	keep_reports(socket.native_handle(), is_v6, false);
	sent = socket.send(question.data(), question.size());
	keep_reports(socket.native_handle(), is_v6, true);
	return sent || sent.error() == std::errc::message_size ? std::error_code{} : sent.error();
}

/* Receives an answer until the read deadline. No datagram is longer than the buffer, and only
 * reports say here that a host is unreachable. */
auto receive_into(sn::udp &socket, std::string &answer)
{
	for (;;) {
		auto got = socket.receive(answer.data(), answer.size());
		if (got || !may_be_about_one(got.error()))
			return got;
		if (const auto failed = final_report(socket)) {
			got = sn::unexpected(failed);
			return got;
		}
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
	const auto peer = socket->peer();
	const bool is_v6 = peer && peer->family == AF_INET6;
	const std::string question = header + how.send;
	std::string answer(longest_datagram, '\0');
	for (;;) {
		if (const auto failed = ask(*socket, question, is_v6))
			return failed;
		socket->set_read_deadline(std::min(sn::after(how.timeout / most_sent), until));
		const auto got = receive_into(*socket, answer);
		if (got)
			return judge_datagram({answer.data(), got->size}, how, until);
		if (!is_pause_over(got.error(), until))
			return got.error();
	}
}

} // namespace relay
