/* SPDX-License-Identifier: MIT */
/*
 * The TLS settings of the configuration: for a listener, which ends its clients' TLS, and for the
 * backends of a group. They have only the names of files; tls_context.hpp reads the files.
 */
#ifndef RELAY_TLS_SETTINGS_HPP
#define RELAY_TLS_SETTINGS_HPP

#include <string>
#include <vector>

namespace relay
{

enum class tls_version : unsigned char { v1_2, v1_3 };

/* Whether clients show a certificate. */
enum class client_certificates : unsigned char {
	none,
	optional, /* none is needed, but one that is shown must be valid */
	required,
};

/* Files in PEM. The key may be in the file of the certificate. */
struct tls_certificate_files {
	std::string chain; /* the certificate, and those between it and the root */
	std::string key;

	bool operator==(const tls_certificate_files &) const = default;
};

/* The settings of a listener. */
struct tls_server_settings {
	std::vector<tls_certificate_files>
		certificates;            /* at least one; the first is the default */
	std::vector<std::string> alpn{}; /* the preferred one first; empty: ALPN is ignored */
	tls_version lowest = tls_version::v1_2;
	client_certificates clients = client_certificates::none;
	std::string client_ca{}; /* a file or a folder; empty if there are no client certificates */
	std::string client_crl{}; /* a file; empty: none */

	bool operator==(const tls_server_settings &) const = default;
};

/* The settings of a group. */
struct tls_client_settings {
	bool verify = true;
	std::string ca{};   /* a file or a folder; empty: the system's */
	std::string crl{};  /* a file; empty: none */
	std::string name{}; /* the name in certificates; empty: the host of the backend */
	tls_certificate_files certificate{}; /* shown to backends that ask; empty: none */
	std::vector<std::string> alpn{}; /* to offer; empty: the one agreed on with the client */
	tls_version lowest = tls_version::v1_2;

	bool operator==(const tls_client_settings &) const = default;
};

} // namespace relay

#endif
