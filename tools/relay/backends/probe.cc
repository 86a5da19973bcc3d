/* SPDX-License-Identifier: MIT */
#include "backends/probe.hpp"

#include "backends/answers.hpp"
#include "backends/datagram_probe.hpp"
#include "backends/names.hpp"
#include "base/address.hpp"
#include "base/descriptors.hpp"
#include "wire/proxy_header.hpp"

namespace relay
{
namespace
{

/* The PROXY header for the relay's own connection. */
std::string own_header(proxy_sending version)
{
	proxy_header own;
	own.own = true;
	switch (version) {
	case proxy_sending::v1:
		return write_proxy_v1(own);
	case proxy_sending::v2:
		return write_proxy_v2(own);
	default:
		return "";
	}
}

/* The value of the Host header. The address of a Unix socket has no host. */
std::string host_of_request(const check_config &how, const std::string &to)
{
	return !how.host.empty() ? how.host : is_unix(to) ? "localhost" : to;
}

std::string request_of(const check_config &how, const std::string &host)
{
	return how.http + " HTTP/1.1\r\nHost: " + host +
	       "\r\nUser-Agent: sennit-relay\r\nAccept: */*\r\nConnection: close\r\n\r\n";
}

} // namespace

std::string probed_address(const endpoint &of, const check_place &where)
{
	if (!where.address.empty())
		return where.address;
	if (where.port == 0)
		return of.address;
	return of.address.substr(0, of.address.rfind(':') + 1) + std::to_string(where.port);
}

bool probes_by_tls(const check_config &how, const check_place &where, bool group_has_tls) noexcept
{
	return !how.udp && group_has_tls && how.tls.value_or(!where.is_other());
}

std::error_code probe(const endpoint &at, const check_config &how, const check_place &where,
		      const probe_opening &opening, sn::deadline until, std::string &detail)
{
	const std::string to = probed_address(at, where);
	if (how.udp)
		return probe_by_datagrams(
			to, how, where.is_other() ? "" : own_header(opening.header), until);
	auto connected = connect_to_endpoint(to, until, first_words::unknown);
	if (!connected)
		return connected.error();
	connected->set_read_deadline(until);
	connected->set_write_deadline(until);
	std::string first = where.is_other() ? "" : own_header(opening.header);
	if (probes_by_tls(how, where, opening.tls != nullptr)) {
		if (const auto sent = connected->write_all(first); !sent)
			return sent.error();
		const auto host = tls_host_of(where.address.empty() ? at.backend : where.address);
		const auto failed = opening.tls->connect(*connected, host, "", until, detail);
		if (failed) {
			connected->abort();
			return is_shortage(failed) ? failed : tls_error(failed);
		}
		first.clear();
	}
	first +=
		how.http.empty()
			? how.send
			: request_of(how, host_of_request(how, where.is_other() ? to : at.backend));
	if (const auto sent = connected->write_all(first); !sent)
		return sent.error();
	const std::error_code answer = read_answer(*connected, how, until);
	/*
	 * The connection is reset, not closed in order: the backend's answer may be long, and a
	 * backend that was only connected to need not keep the connection. An expected answer shows
	 * that the check's bytes have arrived, so the reset loses nothing.
	 */
	if (!answer)
		connected->abort();
	return answer;
}

} // namespace relay
