/* SPDX-License-Identifier: MIT */
/*
 * The checked content of a TLS context's files, as the configurations of the library. Once made,
 * material does not change, except for the ticket keys; when the files change, new material is
 * made. Used by tls_openssl.cc.
 */
#ifndef RELAY_TLS_MATERIAL_HPP
#define RELAY_TLS_MATERIAL_HPP

#include "tls/tls_context.hpp"
#include "tls/tls_files.hpp"
#include "tls/tls_tickets.hpp"

#include <sennit/sn.hpp>
#include <sennit/tls.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace relay
{

/* The library's configuration for a listener. */
struct tls_server_material {
	sn::tls_config config{SN_TLS_SERVER};
	std::vector<tls_certificate_info> certificates;
	mutable std::atomic<std::uint64_t> tickets{0}; /* the generation of its ticket keys */
};

/* The library's configurations for a group. */
class tls_client_material
{
public:
	/*
	 * The configuration for connections that offer that protocol, or those of the settings. It
	 * is made on first use, from the files as they were read, and has its own sessions to
	 * resume. Only the first 64 different protocols of clients are offered.
	 */
	sn::tls_config config_for(const std::string &alpn) const;

	std::vector<tls_certificate_info> certificates;

private:
	friend std::shared_ptr<const tls_client_material>
	make_material(const tls_client_settings &settings, tls_files &files, std::string &why);

	sn::tls_config make(const std::string &alpn) const;

	tls_client_settings settings_;
	/* PEM, or the name of a folder. */
	std::string ca_, crl_, chain_, key_;
	mutable std::mutex lock_; /* guards made_; the other fields do not change */
	mutable std::map<std::string, sn::tls_config> made_;
};

/* Each makes material, or returns null if something is wrong with the files; why has the key,
 * the file, and the mistake. These block on the file system, and throw what sn::tls_config and
 * tls_tickets throw. owner: tickets are accepted only from the same owner, and only with the
 * same client authorities. */
std::shared_ptr<const tls_server_material> make_material(const tls_owner &owner,
							 const tls_server_settings &settings,
							 const tls_tickets *tickets,
							 tls_files &files, std::string &why);
std::shared_ptr<const tls_client_material> make_material(const tls_client_settings &settings,
							 tls_files &files, std::string &why);

/* Gives the listener's configuration the keys. One caller at a time. */
void set_tickets(const tls_server_material &of, const tls_tickets &keys);

/* The common name of a certificate in DER, for logs and headers: UTF-8 without control characters,
 * at most 256 bytes. Empty if it has none. */
std::string common_name_of(const std::vector<std::byte> &der);

} // namespace relay

#endif
