/* SPDX-License-Identifier: MIT */
/*
 * One check of an endpoint: connects to the endpoint, or to another configured address, and asks
 * for an answer if one is expected (answers.hpp).
 *
 * A check may ask by datagrams instead (datagram_probe.hpp).
 *
 * All of this must end by the deadline. Then the connection is reset. The deadline is never
 * sn::no_deadline, because the timeout of a check is at least 1 ms, and at most a year.
 *
 * If the group sends PROXY headers, a check begins with a header for the relay's own connection. It
 * does not if it connects to another address than the endpoint's, where another program answers,
 * such as one beside a database. The same holds for TLS, unless `check.tls` says otherwise.
 */
#ifndef RELAY_PROBE_HPP
#define RELAY_PROBE_HPP

#include "backends/endpoint.hpp"
#include "config/config.hpp"
#include "tls/tls_context.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <memory>
#include <string>
#include <system_error>

namespace relay
{

/* The address that a check of the endpoint connects to. */
std::string probed_address(const endpoint &of, const check_place &where);

/* How connections to the backends begin. */
struct probe_opening {
	proxy_sending header = proxy_sending::none;
	/* The group's TLS; null: it has none. */
	std::shared_ptr<const tls_context> tls{};
};

/* Whether a check makes a TLS handshake, for which its task needs tls_stack. */
bool probes_by_tls(const check_config &how, const check_place &where, bool group_has_tls) noexcept;

/*
 * Checks the endpoint; returns no error if it is healthy. where: used instead of how.at.
 * check_error_text() has the words for an error, unless detail has better ones. Throws
 * std::bad_alloc. May park.
 */
std::error_code probe(const endpoint &at, const check_config &how, const check_place &where,
		      const probe_opening &opening, sn::deadline until, std::string &detail);

} // namespace relay

#endif
