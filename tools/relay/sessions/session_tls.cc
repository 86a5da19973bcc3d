/* SPDX-License-Identifier: MIT */
/* TLS of a session: the handshake with the client, and that with the backend. */
#include "sessions/session.hpp"

#include "base/descriptors.hpp"

#include <chrono>
#include <system_error>
#include <utility>

namespace relay
{

bool session::has_tls() const noexcept
{
	return tls_ || (to_ && to_->tls());
}

/* Makes the handshake with the client. Returns false if that fails; then the session is over. */
bool session::receive_tls(sn::deadline until)
{
	tls_facts facts;
	std::string why;
	const std::error_code failed = via_->tls->accept(client_, until, facts, why);
	if (!failed) {
		(facts.resumed ? via_->counts->tls_resumed : via_->counts->tls_full).add();
		tls_ = std::move(facts);
		return true;
	}
	if (failed == std::errc::not_enough_memory || is_shortage(failed)) {
		all_.counters.no_memory.add();
		return fail_opening(termination::no_memory, std::move(why));
	}
	/* Without a deadline the handshake has one of its own, which counts as a timeout. If
	 * there is a deadline and it has not passed, it was the kernel that gave up on the
	 * client, with the same error. */
	if (failed == std::errc::timed_out && (until == sn::no_deadline || sn::now() >= until))
		return fail_opening(termination::tls_timeout, "");
	if (failed == std::errc::timed_out || failed == std::errc::connection_reset ||
	    failed == std::errc::connection_aborted || failed == std::errc::broken_pipe)
		return fail_opening(termination::client_left, std::move(why));
	return fail_opening(termination::tls_failed, std::move(why));
}

/*
 * Begins TLS on a new connection to a backend, after the PROXY header, which is not encrypted. A
 * failure counts as a failure to connect.
 */
std::error_code session::secure(sn::tcp &backend, const endpoint &at, sn::deadline until)
{
	const auto &tls = to_->tls();
	if (const std::string header = opening_for(); !header.empty()) {
		backend.set_write_deadline(until);
		if (const auto sent = backend.write_all(header); !sent)
			return sent.error();
		backend.set_write_deadline(sn::no_deadline);
	}
	const std::error_code failed = tls->connect(backend, tls_host_of(at.backend),
						    tls_ ? tls_->alpn : "", until, refusal_);
	return !failed || is_shortage(failed) ? failed : tls_error(failed);
}

} // namespace relay
