/* SPDX-License-Identifier: MIT */
/* Replaces tls_openssl.cc and tls_material.cc in a build without OpenSSL. */
#include "tls/tls_context.hpp"

namespace relay
{

const bool tls_is_built = false;

std::shared_ptr<tls_context> tls_context::open(tls_owner owner, tls_settings, tls_tickets *,
					       tls_files, std::string &why)
{
	why = owner.key() + ": this sennit-relay is built without TLS";
	return nullptr;
}

std::string tls_context::reason(const sn::tcp &)
{
	return "";
}

std::string tls_context::certificate_of(const sn::tcp &)
{
	return "";
}

} // namespace relay
